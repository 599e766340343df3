package tun

import (
	"slices"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// maxUnsent is the maximum number of packets that Read passes to WireGuard while WireGuard sends
// none, because it has no session or its socket is full. WireGuard would keep 16384 of them, in
// 64 KiB each. The gateway's own packets are not limited: probes notice a new session.
const maxUnsent = 512

// route says which links get what a device reads for the tunnel. Immutable.
type route struct {
	carrier *Device   // sends packets without an owner: the device itself, or, while that carries nothing, another one
	others  []*Device // to the other remote gateways that can be reached
}

// use replaces the route.
func (d *Device) use(r route) {
	if now := d.route.Load(); now.carrier != r.carrier || !slices.Equal(now.others, r.others) {
		d.route.Store(&r)
	}
}

// forward sends a packet of a node into the tunnel: over the link of the remote gateway that owns its destination, else over
// that of the carrier. What this device is to send itself is dropped while WireGuard has no address for the peer, or sends
// nothing.
func (d *Device) forward(l *lane, out *gateway.Result) {
	r := &d.read
	d.shareHint(r.route, out.Hint)
	exit := out.Owner
	if exit == nil {
		exit = r.route.carrier
	}
	switch {
	case exit != gateway.Exit(d):
		d.handOver(exit, out.Packet, out.Pieces)
	case !r.peerKnown:
		d.Egress.CountDropped(gateway.NoPeer, 1)
	case r.unsent >= maxUnsent:
		d.Egress.CountDropped(gateway.TunnelQueue, 1)
	case out.Pieces != nil:
		l.pieces = *out.Pieces
	default:
		d.emit(copy(r.bufs[r.n][r.offset:], out.Packet))
	}
}

// shareHint queues a copy of a hint, unless nil, for the other remote gateways.
func (d *Device) shareHint(r *route, hint []byte) {
	if hint == nil {
		return
	}
	for _, to := range r.others {
		to.inject(&d.Egress.Counters, hint, handedOver)
	}
}

// emitPieces writes pieces of the current packet until bufs are full. The packet stays in the
// receiver's memory, which is not reused before all pieces are written. They are the carrier's if
// the lane has changed hands since the first.
func (d *Device) emitPieces(l *lane) {
	r := &d.read
	if r.route.carrier != d {
		d.handOver(r.route.carrier, nil, &l.pieces)
		l.pieces = packet.Pieces{}
		return
	}
	for r.n < len(r.bufs) && l.pieces.Left() {
		d.emit(l.pieces.Next(r.bufs[r.n][r.offset:]))
	}
}

func (d *Device) emit(size int) {
	r := &d.read
	r.sizes[r.n] = size
	r.unsent++
	r.bytes += uint64(size)
	r.n++
}

// handOver passes a packet, or its pieces unless nil, to the link that sends them, and counts losses.
func (d *Device) handOver(to gateway.Exit, whole []byte, pieces *packet.Pieces) {
	pass := func(ip []byte) {
		if reason := to.Forward(ip); reason != gateway.NoReason {
			d.Egress.CountDropped(reason, 1)
		}
	}
	if pieces == nil {
		pass(whole)
		return
	}
	x := &d.read.out
	x.ensureFree()
	for pieces.Left() {
		pass(x.free[:pieces.Next(x.free)])
	}
}

// Forward implements gateway.Exit.
func (d *Device) Forward(ip []byte) gateway.Reason {
	if !d.knowsPeer() {
		return gateway.NoPeer
	}
	if !d.injected.put(ip, handedOver) {
		return gateway.TunnelQueue
	}
	d.poller.Wake()
	d.Egress.CountForwarded(1, uint64(len(ip)))
	return gateway.NoReason
}
