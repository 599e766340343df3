package tun

import (
	"net/netip"
	"testing"
)

// BenchmarkWrite measures the path from WireGuard's buffers to a node's socket, in full batches. The node does not
// read: its kernel drops what its queue does not hold.
func BenchmarkWrite(b *testing.B) {
	f := newFixture(b)
	packets := make([][]byte, BatchSize)
	for i := range packets {
		packets[i] = tcpPacket(netip.MustParseAddr("10.0.2.9"), pod, make([]byte, 1000), false)
	}
	bufs := tunnelBufs(packets...)
	written, cpu := 0, int64(0)
	b.ReportAllocs()
	for b.Loop() {
		for i, packet := range packets {
			copy(bufs[i][readOffset:], packet) // Write edits it
		}
		before := usedCPU(b)
		n, err := f.device.Write(bufs, readOffset)
		if err != nil {
			b.Fatal(err)
		}
		cpu += usedCPU(b) - before
		written += n
	}
	b.ReportMetric(float64(cpu)/float64(written), "cpu-ns/packet")
}
