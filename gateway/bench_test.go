package gateway_test

import (
	"fmt"
	"runtime"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// routeCounts are the sizes of cluster that the journeys are measured with.
var routeCounts = []int{1, 100_000}

// clusterOf has as many pod prefixes as routes, behind up to 5000 nodes. The first
// is 10.0.0.0/28.
func clusterOf(routes int) *config.Gateway { return large(min(routes, 5000), routes) }

var (
	benchNode = wire{underlay: addr("192.168.0.0"), vni: 1, mac: node1A.mac}
	benchOut  = flow{src: "10.0.0.1", dst: "172.17.3.4"}
	benchIn   = flow{src: "172.16.3.4", dst: "10.0.0.1"}
)

func BenchmarkEgressFrame(b *testing.B) {
	benchmarkJourney(b, func(g *gateway.Gateway, p []byte) func() gateway.Result {
		e := gateway.NewEgress(g)
		datagram := benchNode.frame(p)
		header := gateway.EncapLen + packet.IPv4HeaderLen
		original := append([]byte(nil), datagram[:header+packet.UDPHeaderLen]...)
		return func() gateway.Result {
			copy(datagram, original) // the packet before its edit
			return e.Frame(datagram, benchNode.outer(), start)
		}
	}, benchOut, gateway.ToTunnel)
}

func BenchmarkIngressPacket(b *testing.B) {
	benchmarkJourney(b, func(g *gateway.Gateway, p []byte) func() gateway.Result {
		i := gateway.NewIngress(g)
		original := append([]byte(nil), p[:packet.IPv4HeaderLen+packet.UDPHeaderLen]...)
		return func() gateway.Result {
			copy(p, original)
			return i.Packet(p, start)
		}
	}, benchIn, gateway.ToNode)
}

func benchmarkJourney(b *testing.B, journey func(*gateway.Gateway, []byte) func() gateway.Result, f flow, want gateway.Verdict) {
	for _, routes := range routeCounts {
		g := gateway.New(tableOf(b, clusterOf(routes), gateway.MTUs{Overlay: 1450, Tunnel: 1400}))
		for _, size := range []int{1400, 64} {
			b.Run(fmt.Sprintf("size=%d/routes=%d", size, routes), func(b *testing.B) {
				run := journey(g, sized(size, f))
				if r := run(); r.Verdict != want {
					b.Fatalf("verdict %d, %q", r.Verdict, r.Reason)
				}
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					run()
				}
			})
		}
	}
}

func BenchmarkEgressTooBigAnswered(b *testing.B) {
	e := gateway.NewEgress(gateway.New(tableOf(b, clusterOf(1), gateway.MTUs{Overlay: 1450, Tunnel: 1400})))
	f := benchOut
	f.df = true
	datagram := benchNode.frame(sized(1401, f))
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(1e9)
		if r := e.Frame(datagram, benchNode.outer(), now); r.Answer == nil {
			b.Fatal("not answered")
		}
	}
}

// BenchmarkNewTable reports what a table costs to build and to keep: 5000 nodes,
// 100 000 prefixes behind them.
func BenchmarkNewTable(b *testing.B) {
	c := large(5000, 100_000)
	var table *gateway.Table
	var err error
	before := heap()
	b.ReportAllocs()
	for b.Loop() {
		if table, err = gateway.NewTable(c, mtus, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(heap()-before)/(1<<20), "MiB-kept")
	runtime.KeepAlive(table)
	runtime.KeepAlive(c)
}

// heap is what is in use after a collection, bytes.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
