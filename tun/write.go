package tun

import (
	"time"

	"strait.dev/strait/gateway"
)

// Write takes decrypted packets through the ingress journey and sends them to
// their nodes, all of them before it returns: bufs are only ours until then.
// What cannot be sent is dropped and counted, so there is never an error.
func (d *Device) Write(bufs [][]byte, offset int) (int, error) {
	w := &d.write
	now := time.Now()
	slab := w.slab
	w.bytes, w.count = 0, 0
	w.taps = d.overlay.tapping.now.Load()
	for _, b := range bufs {
		if w.taps != nil {
			w.taps.seeIP(FromTunnel, b[offset:])
		}
		out := d.Ingress.Packet(b[offset:], now)
		switch out.Verdict {
		case gateway.ToNode:
			if out.Pieces == nil {
				d.sendToNode(&out, out.Packet)
				continue
			}
			if len(slab) < len(w.slab)/2 {
				d.flush()
				slab = w.slab
			}
			for out.Pieces.Left() {
				size := out.Pieces.Next(slab)
				d.sendToNode(&out, slab[:size])
				slab = slab[size:]
			}
		case gateway.ToHost:
			d.host.deliver(out.Packet)
		case gateway.Drop:
			if out.Answer != nil {
				d.inject(&d.Ingress.Counters, out.Answer)
			}
		}
	}
	d.flush()
	w.taps = nil // it may hold much memory
	d.Ingress.CountForwarded(w.count, w.bytes)
	return len(bufs), nil
}

func (d *Device) sendToNode(out *gateway.Result, ip []byte) {
	w := &d.write
	d.overlay.send(w.taps, w.out, out.Node, out.Hash, out.Node.Header(out.Version), ip)
	w.count++
	w.bytes += uint64(len(ip))
}

// flush sends what was added. Datagrams that the batch had to drop, here or when
// it was full, are no longer on their way.
func (d *Device) flush() {
	_, dropped := d.write.out.Flush()
	if dropped > 0 {
		d.Ingress.CountDropped(gateway.UnderlaySend, uint64(dropped))
	}
}
