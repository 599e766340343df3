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
	answers  *underlay.Batch // the journey has counted them
	slab     []byte          // copies of pieces and of packets in a journey's own memory, until the batch is sent
	free     []byte          // the rest of slab
	taps     *taps           // set while packets are added; nil = no taps

	bytes uint64 // of IP packets added since the last flush
}

// newOutbox returns an outbox. slab is the number of bytes that it can copy per batch, more than
// packet.MaxLen.
func newOutbox(o *Overlay, c *gateway.Counters, slab int) outbox {
	return outbox{overlay: o, counters: c, batch: underlay.NewBatch(BatchSize), answers: underlay.NewBatch(underlay.ReceiveBatch), slab: make([]byte, slab)}
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
	if !x.overlay.send(x.taps, x.batch, r, r.Node.Header(r.Version), ip) {
		x.counters.CountDropped(gateway.UnderlaySend, 1)
		return
	}
	x.bytes += uint64(len(ip))
}

// answer adds the answer of an egress Result to its node, which is sent after everything else. The journey reuses the answer's
// memory for its next packet. It counts answers, so only a lost one is counted here.
func (x *outbox) answer(r *gateway.Result) {
	if len(x.free) < len(r.Answer) {
		x.flush()
	}
	n := copy(x.free, r.Answer)
	if !x.overlay.send(x.taps, x.answers, r, r.AnswerHeader, x.free[:n]) {
		x.counters.CountDropped(gateway.UnderlaySend, 1)
		return
	}
	x.free = x.free[n:]
}

// flush sends what was added. Every packet is counted once: as forwarded if the kernel took it, else
// as dropped.
func (x *outbox) flush() {
	sent, dropped := x.batch.Flush()
	if dropped > 0 {
		x.counters.CountDropped(gateway.UnderlaySend, uint64(dropped))
		x.bytes -= x.batch.DroppedBytes() - uint64(dropped)*gateway.EncapLen
	}
	if sent > 0 {
		x.counters.CountForwarded(uint64(sent), x.bytes)
	}
	if _, dropped := x.answers.Flush(); dropped > 0 {
		x.counters.CountDropped(gateway.UnderlaySend, uint64(dropped))
	}
	x.bytes = 0
	x.free = x.slab
}
