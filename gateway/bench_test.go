package gateway_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
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
	// Packets of these alternate with those above.
	otherOut = flow{src: "10.0.0.2", dst: "172.17.3.5"}
	otherIn  = flow{src: "172.16.3.5", dst: "10.0.0.2"}
)

func BenchmarkEgressFrame(b *testing.B) {
	benchmarkJourney(b, func(g *gateway.Gateway, packets [][]byte) func() gateway.Result {
		e := gateway.NewEgress(g)
		var datagrams [][]byte
		for _, p := range packets {
			datagrams = append(datagrams, benchNode.frame(p))
		}
		header := gateway.EncapLen + packet.IPv4HeaderLen
		return inTurn(datagrams, header+packet.UDPHeaderLen, func(datagram []byte) gateway.Result {
			return e.Frame(datagram, benchNode.outer(), start)
		})
	}, []flow{benchOut, otherOut}, gateway.ToTunnel)
}

func BenchmarkIngressPacket(b *testing.B) {
	benchmarkJourney(b, func(g *gateway.Gateway, packets [][]byte) func() gateway.Result {
		i := gateway.NewIngress(g)
		return inTurn(packets, packet.IPv4HeaderLen+packet.UDPHeaderLen, func(p []byte) gateway.Result {
			return i.Packet(p, start)
		})
	}, []flow{benchIn, otherIn}, gateway.ToNode)
}

// inTurn returns a function that passes one packet after the other, each with the same headers every time, because a
// journey edits them.
func inTurn(packets [][]byte, headers int, pass func([]byte) gateway.Result) func() gateway.Result {
	var originals [][]byte
	for _, p := range packets {
		originals = append(originals, bytes.Clone(p[:headers]))
	}
	next := 0
	return func() gateway.Result {
		p := packets[next]
		copy(p, originals[next])
		if next++; next == len(packets) {
			next = 0
		}
		return pass(p)
	}
}

// benchmarkJourney measures packets of one flow, and of several that alternate.
func benchmarkJourney(b *testing.B, journey func(*gateway.Gateway, [][]byte) func() gateway.Result, flows []flow, want gateway.Verdict) {
	for _, routes := range routeCounts {
		g := gateway.New(tableOf(b, clusterOf(routes), gateway.MTUs{Overlay: 1450, Tunnel: 1400}), rand.NewPCG(1, 2))
		for _, size := range []int{1400, 64} {
			for _, flows := range [][]flow{flows[:1], flows} {
				b.Run(fmt.Sprintf("size=%d/routes=%d/flows=%d", size, routes, len(flows)), func(b *testing.B) {
					var packets [][]byte
					for _, f := range flows {
						packets = append(packets, sized(size, f))
					}
					run := journey(g, packets)
					for range flows {
						if r := run(); r.Verdict != want {
							b.Fatalf("verdict %d, %q", r.Verdict, r.Reason)
						}
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
}

// BenchmarkEgressSuperFrame segments TCP of a pod on the gateway's own machine: packets of 60 000 and of 100 bytes, with
// the handshake of the flow seen or not.
func BenchmarkEgressSuperFrame(b *testing.B) {
	for _, size := range []int{60_000, 100} {
		for _, seen := range []bool{true, false} {
			b.Run(fmt.Sprintf("size=%d/handshake=%t", size, seen), func(b *testing.B) {
				g := gateway.New(tableOf(b, clusterOf(1), gateway.MTUs{Overlay: 1450, Tunnel: 1440}), rand.NewPCG(1, 2))
				e := gateway.NewEgress(g)
				if seen {
					r := gateway.NewIngress(g).Packet(flow{src: "172.16.3.4", dst: benchOut.src, from: 443, to: 12345}.tcp(syn|ack, mss(9000), nil), start)
					expectVerdict(b, r, gateway.ToNode)
				}
				datagram := benchNode.frame(partial(benchOut).tcp(ack, nil, counting(size)))
				original, piece := bytes.Clone(datagram[:gateway.EncapLen+packet.IPv4HeaderLen+packet.TCPHeaderLen]), make([]byte, 1440)
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					copy(datagram, original)
					r := e.Frame(datagram, benchNode.outer(), start)
					if r.Pieces == nil {
						copy(piece, r.Packet)
						continue
					}
					for r.Pieces.Left() {
						r.Pieces.Next(piece)
					}
				}
			})
		}
	}
}

func BenchmarkEgressTooBigAnswered(b *testing.B) {
	e := gateway.NewEgress(gateway.New(tableOf(b, clusterOf(1), gateway.MTUs{Overlay: 1450, Tunnel: 1400}), rand.NewPCG(1, 2)))
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
