package tun

import (
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// outbox batches the packets that one goroutine sends to nodes, and counts them in its journey's
// counters. The memory of added packets must stay unchanged until flush.
type outbox struct {
	overlay  *Overlay
	counters *gateway.Counters
	batch    *underlay.Batch
	slab     []byte // copies of pieces and of packets in a journey's own memory, until the batch is sent
	free     []byte // the rest of slab
	taps     *taps  // set while packets are added; nil = no taps

	packets, bytes uint64 // added since the last flush
}

// newOutbox returns an outbox. slab is the number of bytes that it can copy per batch, more than
// packet.MaxLen.
func newOutbox(o *Overlay, c *gateway.Counters, slab int) outbox {
	return outbox{overlay: o, counters: c, batch: underlay.NewBatch(BatchSize), slab: make([]byte, slab)}
}

// forward adds the packet or the pieces of a Result with the verdict ToNode. The memory that the
// journey was given must stay unchanged until flush.
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

// ensureFree makes sure that free can hold any packet.
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

// answer sends the answer of an egress Result to its node, after everything added before. The
// journey reuses the answer's memory for its next packet. Answers are counted by the journey.
func (x *outbox) answer(r *gateway.Result) {
	x.flush()
	x.overlay.send(x.taps, x.batch, r, r.AnswerHeader, r.Answer)
	x.batch.Flush()
}

// flush sends the batch. Datagrams that the batch had to drop are counted as drops.
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
