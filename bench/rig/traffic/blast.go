//go:build linux

package traffic

import (
	"net/netip"
	"runtime"
	"slices"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/underlay"
)

// Blast sends datagrams and returns when all are sent.
func (e *End) Blast(b Blast, sent *Sent) error {
	runtime.LockOSThread() // the clock blocks the thread, a thousand times per second or more
	defer runtime.UnlockOSThread()
	measure.Sharp()
	port := uint16(portUDPSink)
	if b.Segment {
		port = portTunnel
	}
	socket, err := underlay.Listen(anyLocal(b.To), underlay.Options{DisableGSO: !b.Segment})
	if err != nil {
		return err
	}
	defer socket.Close()
	to := underlay.NewDestination(netip.AddrPortFrom(b.To, port))
	payload, next := make([]byte, slices.Max(b.Sizes)), 0
	batch := underlay.NewBatch(b.Burst)
	bursts, _ := measure.Offer(measure.NewClock(), measure.Pace{Rate: b.Rate / float64(b.Burst)}, b.Duration, func(n int) int {
		for range n * b.Burst {
			batch.Add(socket, &to, nil, payload[:b.Sizes[next]])
			next = (next + 1) % len(b.Sizes)
		}
		taken, _ := batch.Flush() // the rest is missing in sent
		sent.Sent += taken
		return n
	})
	sent.Wanted = bursts * b.Burst
	return nil
}
