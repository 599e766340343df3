package tun

import (
	"net"
	"net/netip"
	"testing"

	"strait.dev/strait/underlay"
)

// BenchmarkRead measures the path from a node's socket into WireGuard's buffers with one link, in the
// batches of a busy gateway. The node's sends are not measured.
func BenchmarkRead(b *testing.B) {
	f := newFixture(b)
	s, err := underlay.Listen(netip.AddrPortFrom(f.node.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), 0), underlay.Options{DisableGSO: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	to := underlay.NewDestination(f.gateway)
	batch := underlay.NewBatch(BatchSize)
	const burst = underlay.ReceiveBatch
	frames := make([][]byte, burst)
	for i := range frames {
		frames[i] = f.frame(tcpPacket(pod, remotePod, make([]byte, 1000), false))
	}
	bufs, sizes := buffers(BatchSize)
	packets, cpu := 0, int64(0)
	b.ReportAllocs()
	for b.Loop() {
		for _, frame := range frames {
			batch.Add(s, &to, nil, frame)
		}
		batch.Flush()
		f.device.read.sent++ // WireGuard keeps up
		before := usedCPU(b)
		for got := 0; got < burst; {
			n, err := f.device.Read(bufs, sizes, readOffset)
			if err != nil {
				b.Fatal(err)
			}
			got += n
		}
		cpu += usedCPU(b) - before
		packets += burst
	}
	b.ReportMetric(float64(cpu)/float64(packets), "cpu-ns/packet")
}
