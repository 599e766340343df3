package tun

import (
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// maxUnsent is the maximum number of packets that Read passes to WireGuard while WireGuard sends
// none, because it has no session or its socket is full. WireGuard would keep 16384 of them, in
// 64 KiB each. The gateway's own packets are not limited: probes notice a new session.
const maxUnsent = 512

const (
	// unsentLook is how often Read checks whether WireGuard sends again while packets that were handed over wait for it.
	unsentLook = 5 * time.Millisecond
	// unsentWait is how long they wait at most. Their senders have sent them again by then, or given them up.
	unsentWait = time.Second
)

// routing says over which links packets for the remote cluster leave. Immutable.
type routing struct {
	flows     [buckets]*Device // by the hash of the flow; nil without links
	reachable []*Device        // one for each remote gateway that can be reached
}

// device returns the device that sends the packets of a flow, by its hash. Nil: there is no link.
func (r *routing) device(flow uint32) *Device { return r.flows[flow%buckets] }

// share returns the share of the flows that a device sends.
func (r *routing) share(d *Device) float64 {
	n := 0
	for _, other := range r.flows {
		if other == d {
			n++
		}
	}
	return float64(n) / buckets
}

// await makes Read look again soon while packets that were handed over wait for WireGuard, and drops them when they have waited
// for too long.
func (r *reader) await(now time.Time) {
	if r.waiting.IsZero() {
		r.waiting = now
	}
	if now.Sub(r.waiting) >= unsentWait {
		r.egress.CountDropped(gateway.TunnelQueue, uint64(r.device.injected.discard(handedOver)))
		return
	}
	r.look.Reset(unsentLook) // WireGuard does not tell when it sends again
}

// forward sends a packet of a node into the tunnel: over the link of the remote gateway that owns its destination, else over
// that of its flow. What this device is to send itself is dropped while WireGuard has no address for the peer, or sends
// nothing.
func (r *reader) forward(in *incoming, out *gateway.Result) {
	exit := out.Owner
	if exit == nil {
		link := r.routing.device(out.Hash)
		if link == nil {
			r.egress.CountDropped(gateway.NoPeer, 1)
			return
		}
		exit = link
	}
	r.shareHint(out.Hint, exit)
	switch {
	case exit != gateway.Exit(r.device):
		r.handOver(exit, out.Packet, out.Pieces)
	case !r.peerKnown:
		r.egress.CountDropped(gateway.NoPeer, 1)
	case r.unsent >= maxUnsent:
		r.egress.CountDropped(gateway.TunnelQueue, 1)
	case out.Pieces != nil:
		in.pieces = *out.Pieces
	default:
		r.emit(copy(r.bufs[r.n][r.offset:], out.Packet))
	}
}

// shareHint queues a copy of a hint, unless nil, for the remote gateways that do not get its packet.
func (r *reader) shareHint(hint []byte, exit gateway.Exit) {
	if hint == nil {
		return
	}
	for _, to := range r.routing.reachable {
		if gateway.Exit(to) != exit {
			to.inject(&r.egress.Counters, hint, handedOver)
		}
	}
}

// emitPieces writes pieces of the current packet until bufs are full. The packet stays in the
// receiver's memory, which is not reused before all pieces are written.
func (r *reader) emitPieces(in *incoming) {
	if !r.peerKnown { // another device has read the packet
		r.egress.CountDropped(gateway.NoPeer, 1)
		in.pieces = packet.Pieces{}
	}
	for r.n < len(r.bufs) && in.pieces.Left() {
		r.emit(in.pieces.Next(r.bufs[r.n][r.offset:]))
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
	r.each(whole, pieces, func(ip []byte) {
		if reason := to.Forward(ip); reason != gateway.NoReason {
			r.egress.CountDropped(reason, 1)
		}
	})
}

// each calls pass for a packet, or for its pieces unless nil.
func (r *reader) each(whole []byte, pieces *packet.Pieces, pass func(ip []byte)) {
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
