package tun

import (
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// inbox passes packets to the host stack, those of one batch that belong together as one (GRO): the stack then processes
// up to 64 KiB of a TCP flow like one packet. Not for concurrent use.
type inbox struct {
	host     *Host
	joined   packet.Coalescer
	payloads [][]byte // of the joined packets after the first
	ip       packet.IP
}

// add passes on a packet, or keeps it for the next ones. Its memory must stay unchanged until flush.
func (x *inbox) add(r *gateway.Result) {
	b := r.Packet
	if r.Reassembled || packet.Parse(b, &x.ip) != packet.FaultNone {
		x.flush()
		x.host.deliver(b)
		return
	}
	if payload, ok := x.joined.Append(b, &x.ip); ok {
		x.payloads = append(x.payloads, payload)
		return
	}
	x.flush()
	if !x.joined.Start(b, &x.ip) {
		x.host.deliver(b)
	}
}

// flush passes on what was kept.
func (x *inbox) flush() {
	first := x.joined.End()
	if first == nil {
		return
	}
	more := x.payloads
	x.payloads = more[:0] // even if the stack panics
	x.host.deliver(first, more...)
}

// empty reports that no packet is kept.
func (x *inbox) empty() bool { return !x.joined.Started() }
