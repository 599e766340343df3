package tun

import (
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// writer takes decrypted packets through the ingress journey. It belongs to the goroutine of Write.
type writer struct {
	device *Device
	out    outbox
	toHost inbox
}

// Write takes decrypted packets through the ingress journey and sends them to their nodes. All are
// sent before it returns, because the caller reuses bufs. Packets that cannot be sent are dropped
// and counted, so there is never an error.
func (d *Device) Write(bufs [][]byte, offset int) (int, error) {
	w := &d.write
	d.window.Begin()
	defer d.window.End(bufs[len(bufs)-1])
	now := time.Now()
	d.received.Store(int64(now.Sub(began)))
	w.out.taps = d.overlay.tapping.now.Load()
	for done := 0; done < len(bufs) || !w.toHost.empty(); {
		done = w.writeFrom(done, bufs, offset, now)
	}
	w.out.flush()
	w.out.taps = nil // it may reference much memory
	return len(bufs), nil
}

// writeFrom processes bufs[done:], and what is kept for the host. It returns how many of bufs are done: all, or all up to
// one whose journey panicked.
func (w *writer) writeFrom(done int, bufs [][]byte, offset int, now time.Time) (reached int) {
	d := w.device
	reached = done
	defer func() {
		if fault := recover(); fault != nil {
			d.Ingress.CountDropped(gateway.Panic, 1)
			d.overlay.panics.report(now, fault, bufs[reached-1][offset:])
		}
	}()
	for reached < len(bufs) {
		b := bufs[reached][offset:]
		reached++
		w.fromTunnel(b, now)
	}
	w.toHost.flush()
	return reached
}

// fromTunnel processes one decrypted packet.
func (w *writer) fromTunnel(b []byte, now time.Time) {
	d, x := w.device, &w.out
	if x.taps != nil {
		x.taps.seeIP(gateway.FromTunnel, b)
	}
	r := d.Ingress.Packet(b, now)
	switch r.Verdict {
	case gateway.ToNode:
		x.forward(&r)
	case gateway.ToHost:
		if d.takeDatagram == nil || !d.takeDatagram(r.Packet) {
			w.toHost.add(&r)
		}
	case gateway.Drop:
		if r.Answer != nil {
			d.inject(&d.Ingress.Counters, r.Answer, ownPacket)
		}
	}
}

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
