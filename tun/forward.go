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
func (r *reader) forward(l *lane, out *gateway.Result) {
	r.shareHint(out.Hint)
	exit := out.Owner
	if exit == nil {
		exit = r.route.carrier
	}
	switch {
	case exit != gateway.Exit(r.device):
		r.handOver(exit, out.Packet, out.Pieces)
	case !r.peerKnown:
		r.egress.CountDropped(gateway.NoPeer, 1)
	case r.unsent >= maxUnsent:
		r.egress.CountDropped(gateway.TunnelQueue, 1)
	case out.Pieces != nil:
		l.pieces = *out.Pieces
	default:
		r.emit(copy(r.bufs[r.n][r.offset:], out.Packet))
	}
}

// shareHint queues a copy of a hint, unless nil, for the other remote gateways.
func (r *reader) shareHint(hint []byte) {
	if hint == nil {
		return
	}
	for _, to := range r.route.others {
		to.inject(&r.egress.Counters, hint, handedOver)
	}
}

// emitPieces writes pieces of the current packet until bufs are full. The packet stays in the
// receiver's memory, which is not reused before all pieces are written. They are the carrier's if
// the lane has changed hands since the first.
func (r *reader) emitPieces(l *lane) {
	if r.route.carrier != r.device {
		r.handOver(r.route.carrier, nil, &l.pieces)
		l.pieces = packet.Pieces{}
		return
	}
	for r.n < len(r.bufs) && l.pieces.Left() {
		r.emit(l.pieces.Next(r.bufs[r.n][r.offset:]))
	}
}

func (r *reader) emit(size int) {
	r.sizes[r.n] = size
	r.unsent++
	r.bytes += uint64(size)
	r.n++
}

// handOver passes a packet, or its pieces unless nil, to the link that sends them, and counts losses.
func (r *reader) handOver(to gateway.Exit, whole []byte, pieces *packet.Pieces) {
	pass := func(ip []byte) {
		if reason := to.Forward(ip); reason != gateway.NoReason {
			r.egress.CountDropped(reason, 1)
		}
	}
	if pieces == nil {
		pass(whole)
		return
	}
	x := &r.out
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
