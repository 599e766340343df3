package tun

import (
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
)

// BenchmarkProbesOfNodes measures the answers to probes of 5000 nodes, with all system calls of
// the gateway. cpu-ns/probe includes those of the nodes, one call for each probe and answer.
func BenchmarkProbesOfNodes(b *testing.B) {
	const nodes, burst = 5000, 50
	gatewayAddress, nodeAddress := loopback()
	node, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(nodeAddress, 0)))
	if err != nil {
		b.Fatal(err)
	}
	defer node.Close()
	at := netip.AddrPortFrom(gatewayAddress, node.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	overlay, err := OpenOverlay(OverlayConfig{Geneve: at})
	if err != nil {
		b.Fatal(err)
	}
	c := testConfig()
	c.Overlay.Nodes = nil
	inner := netip.MustParseAddr("10.90.0.0")
	for i := range nodes {
		inner = inner.Next()
		c.Overlay.Nodes = append(c.Overlay.Nodes, config.Node{Underlay: nodeAddress, VNI: uint32(i + 1), Addresses: []netip.Addr{inner}})
	}
	table, err := gateway.NewTable(c, gateway.MTUs{Overlay: 1450, Tunnel: testMTU}, overlay.Handle)
	if err != nil {
		b.Fatal(err)
	}
	fabric, err := Open(gateway.New(table, rand.NewPCG(1, 2)), overlay, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer fabric.Close()
	request := make([]byte, nodeprobe.Len)
	nodeprobe.Message{Sequence: 1}.Put(request)
	var probes [nodes][]byte
	for i, n := range c.Overlay.Nodes {
		ip := packet.AppendUDP(nil, netip.AddrPortFrom(n.Addresses[0], probingPort), netip.AddrPortFrom(c.Overlay.Addresses[0], nodeprobe.Port), request)
		probes[i] = gateway.NewTracer(table).Frame(gateway.NodeKey{Underlay: nodeAddress, VNI: n.VNI}, ip)
	}
	answer := make([]byte, 2048)
	before, sent := usedCPU(b), 0
	b.ReportAllocs()
	for b.Loop() {
		for range burst {
			if _, err := node.WriteToUDPAddrPort(probes[sent%nodes], at); err != nil {
				b.Fatal(err)
			}
			sent++
		}
		for range burst {
			if _, err := node.Read(answer); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(usedCPU(b)-before)/float64(sent), "cpu-ns/probe")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sent), "ns/probe")
}

// usedCPU is the CPU time of this process in nanoseconds.
func usedCPU(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
