package tun

import (
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// outbox collects what one goroutine sends to nodes, and counts it under its journey's
// counters. The memory of what is added must stay until flush.
type outbox struct {
	overlay  *Overlay
	counters *gateway.Counters
	batch    *underlay.Batch
	slab     []byte // pieces, and what lies in a journey's own memory, wait here until the batch is sent
	free     []byte // the rest of slab
	taps     *taps  // while packets are added; nil = nobody looks on

	packets, bytes uint64 // added since the last flush
}

// newOutbox makes one. slab is how many bytes of pieces it sends at once, more than
// packet.MaxLen.
func newOutbox(o *Overlay, c *gateway.Counters, slab int) outbox {
	return outbox{overlay: o, counters: c, batch: underlay.NewBatch(BatchSize), slab: make([]byte, slab)}
}

// forward adds the packet or the pieces of a Result whose verdict is ToNode. The memory that
// the journey was given must stay until flush.
func (x *outbox) forward(r *gateway.Result) {
	switch {
	case r.Pieces != nil:
		for r.Pieces.Left() {
			x.ensureFree()
			x.addCopied(r, r.Pieces.Next(x.free))
		}
	case !r.Reassembled:
		x.add(r, r.Packet)
	default: // in the memory of the journey, which overwrites it
		x.ensureFree()
		x.addCopied(r, copy(x.free, r.Packet))
	}
}

// ensureFree makes free hold any packet.
func (x *outbox) ensureFree() {
	if len(x.free) < packet.MaxLen {
		x.flush()
	}
}

// addCopied adds the first size bytes of free.
func (x *outbox) addCopied(r *gateway.Result, size int) {
	x.add(r, x.free[:size])
	x.free = x.free[size:]
}

func (x *outbox) add(r *gateway.Result, ip []byte) {
	x.overlay.send(x.taps, x.batch, r, r.Node.Header(r.Version), ip)
	x.packets++
	x.bytes += uint64(len(ip))
}

// answer sends the answer of an egress Result to the node that asked, and all that was
// added before. The journey owns the answer's memory until its next packet. Answers are
// counted where they are made.
func (x *outbox) answer(r *gateway.Result) {
	x.flush()
	x.overlay.send(x.taps, x.batch, r, r.AnswerHeader, r.Answer)
	x.batch.Flush()
}

// flush sends what was added. Datagrams that the batch had to drop, here or when it was
// full, are no longer on their way.
func (x *outbox) flush() {
	_, dropped := x.batch.Flush()
	if dropped > 0 {
		x.counters.CountDropped(gateway.UnderlaySend, uint64(dropped))
	}
	if x.packets > 0 {
		x.counters.CountForwarded(x.packets, x.bytes)
		x.packets, x.bytes = 0, 0
	}
	x.free = x.slab
}
