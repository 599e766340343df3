package tun

import (
	"net/netip"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// readRounds is the number of consecutive batches without a packet for the tunnel before
// Read checks its packet queue again, so that a flood of invalid datagrams does not delay the
// gateway's own packets.
const readRounds = 8

// reader takes packets of nodes through the egress journey, into the buffers of WireGuard or to the links that send them.
// It belongs to the goroutine of Read.
type reader struct {
	device    *Device
	egress    *gateway.Egress
	bufs      [][]byte
	sizes     []int
	offset    int
	n         int
	bytes     uint64
	now       time.Time
	peerKnown bool
	routing   *routing
	full      bool        // the last Read filled all bufs
	sent      uint64      // data messages that WireGuard had sent when it was last looked at
	unsent    int         // packets from nodes since that number changed
	waiting   time.Time   // since when packets that were handed over wait for it to change; zero: none has waited
	look      *time.Timer // makes Read look again
	try       func() bool // fill, created once to avoid an allocation per call
	out       outbox      // answers, and packets from node to node
}

// fill reads what is available and reports whether there was anything. It does not wait for a
// fuller batch: waiting costs more latency than the saved calls are worth.
func (r *reader) fill() bool {
	d, in := r.device, &r.device.overlay.incoming
	r.out.taps = d.overlay.tapping.now.Load()
	for more := true; more && r.n == 0; {
		if sent := d.window.Sent(); sent != r.sent {
			r.sent, r.unsent, r.waiting = sent, 0, time.Time{}
		}
		n, handed, waits := d.injected.take(r.bufs, r.sizes, r.offset, maxUnsent-r.unsent)
		r.n = n
		r.unsent += handed
		if waits && r.unsent >= maxUnsent {
			r.await(time.Now())
		}
		if !d.reads.Load() {
			break
		}
		r.now, r.peerKnown = time.Now(), d.knowsPeer()
		before, bytes := r.n, r.bytes
		in.mu.Lock()
		if more = d.reads.Load(); more { // else another device reads it now
			r.routing = d.routing.Load()
			more = r.readIncoming(in)
			r.out.flush() // the memory may be reused once mu is released
		}
		in.mu.Unlock()
		if n := r.n - before; n > 0 {
			r.egress.CountForwarded(uint64(n), r.bytes-bytes)
		}
	}
	if r.out.taps != nil {
		for i := range r.n {
			r.out.taps.seeIP(gateway.IntoTunnel, r.bufs[i][r.offset:][:r.sizes[i]])
		}
		r.out.taps = nil // it may reference much memory
	}
	return r.n > 0
}

// readIncoming moves datagrams from the overlay's sockets through the egress journey until bufs are full,
// nothing waits, or a journey panicked. It reports whether more may be waiting.
func (r *reader) readIncoming(in *incoming) (more bool) {
	o := r.device.overlay
	var inHand []byte // the current or last frame
	defer func() {
		if fault := recover(); fault != nil {
			r.egress.CountDropped(gateway.Panic, 1)
			in.pieces = packet.Pieces{}
			o.panics.report(r.now, fault, inner(inHand, in.current().encapsulation))
			more = true
		}
	}()
	if len(in.sources) == 0 {
		return false // a gateway without nodes listens for none
	}
	short := false // the last batch was, so its source is empty
	for rounds := readRounds; r.n < len(r.bufs); {
		if in.pieces.Left() {
			r.emitPieces(in)
			continue
		}
		if b, size, from, ok := in.turns.NextUnless(in.current().isFrame); ok {
			inHand = b
			r.frame(in, b, size, from)
			continue
		}
		if short && r.n > 0 {
			return false
		}
		if rounds == 0 {
			return true
		}
		r.out.flush() // its packets alias the memory that Fill reuses
		messages := in.turns.FillAny(r.device.poller, o.countFailure)
		if messages == 0 {
			return false
		}
		short = messages < underlay.ReceiveBatch
		rounds--
	}
	return true
}

// frame processes one datagram from a node. size is that of the datagrams into which to segment an inner UDP packet, 0 for none.
func (r *reader) frame(in *incoming, b []byte, size int, from netip.AddrPort) {
	s := in.current()
	if r.out.taps != nil {
		r.out.taps.see(gateway.OverlayIn, s.socket.LocalAddr(), from, nil, b)
	}
	out := r.egress.SuperFrame(b, gateway.Outer{Source: from.Addr(), Encapsulation: s.encapsulation, ECN: in.turns.ECN()}, size, r.now)
	switch out.Verdict {
	case gateway.ToTunnel:
		r.forward(in, &out)
	case gateway.ToNode:
		r.out.forward(&out)
	case gateway.ToHost:
		r.each(out.Packet, out.Pieces, func(ip []byte) { r.device.host.deliver(ip) })
	case gateway.Drop:
		if out.Answer != nil {
			r.out.answer(&out)
		}
	}
}
