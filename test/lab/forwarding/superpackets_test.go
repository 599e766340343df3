//go:build lab || nightly

package forwarding

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/test/lab"
	"strait.dev/strait/test/wait"
)

// A server on the gateway's machine answers with a segment and a bit: both fit the tunnel together, but not the far pod,
// whose interface carries less. Nothing may be lost.
func TestAnswersOfAPodOnTheGatewaysMachineFitASmallerFarPod(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{SameMachine: true})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		w.To.IP(t, fmt.Sprintf("link set eth0 mtu %d", lab.SmallMTU))
		defer w.To.IP(t, fmt.Sprintf("link set eth0 mtu %d", lab.LinkMTU))
		const request, answer, times = 100, 1338, 50
		l := w.From.ListenTCP(t, netip.AddrPortFrom(w.Src, 80))
		client := w.To.Dial(t, "tcp", netip.AddrPortFrom(w.SrcSeen, 80))
		server, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		for range times {
			if _, err := client.Write(make([]byte, request)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(server, make([]byte, request)); err != nil {
				t.Fatal(err)
			}
			if _, err := server.Write(make([]byte, answer)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(client, make([]byte, answer)); err != nil {
				t.Fatal(err)
			}
		}
		if n := retransmissions(t, server); n != 0 {
			t.Errorf("%d retransmissions of %d answers", n, times)
		}
	})
}

// Pod A sends through gateway a-0. All that comes back, SYN-ACKs and errors too, takes a-1: a-0 learns the MSS of pod B
// and the MTU of a path beyond gateway B from the copies that gateway B makes.
func TestBulkTCPThroughTwoGatewaysFitsASmallerPathBeyondTheFarGateway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		superPackets bool
		mtu          int
		ofRoute      bool
	}{
		{"nothing carries less", true, lab.LinkMTU, false},
		{"the far pod accepts less", true, lab.SmallMTU, false},
		{"the far pod accepts 1280 bytes", true, 1280, false},
		{"the far pod accepts 1000 bytes", true, 1000, false},
		{"a route of the far node carries less", true, lab.SmallMTU, true},
		{"a route of the far node carries 1000 bytes", true, 1000, true},
		{"segments, the far pod accepts less", false, lab.SmallMTU, false},
		{"segments, the far pod accepts 1000 bytes", false, 1000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := wireTwoGateways(t, c.superPackets, "a-1")
			top.B.Node.Run(t, "ethtool", "-K", "strait0", "gro", "off") // what it coalesces passes interfaces of any MTU
			if far := top.B; c.ofRoute {
				far.Node.IP(t, fmt.Sprintf("route replace %s dev pod mtu lock %[3]d\nroute replace %[2]s dev pod mtu lock %[3]d", far.Pod4, far.Pod6, c.mtu))
			} else {
				far.Pod.IP(t, fmt.Sprintf("link set eth0 mtu %d", c.mtu))
			}
			directions := []lab.Direction{lab.NewDirection(top.A, top.B, top.A.Pod4, top.B.Pod4)}
			if c.mtu >= 1280 { // the minimum of IPv6
				directions = append(directions, lab.NewDirection(top.A, top.B, top.A.Pod6, top.B.Pod6))
			}
			for _, w := range directions {
				t.Run(w.Name(), func(t *testing.T) {
					const size = 16 << 20
					tooLong := lab.ListenOn(t, top.B.Node, "strait0", func(frame []byte) bool {
						p, ok := lab.IPOf(frame)
						return ok && p.Proto == lab.ProtoTCP && p.Total > c.mtu
					})
					l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
					go lab.ServeDigests(l)
					conn := w.From.Dial(t, "tcp", netip.AddrPortFrom(w.Seen, 5001))
					if err := lab.SendChecked(conn, 1, size); err != nil {
						t.Error(err)
					}
					// Segments that the path refuses are lost once, before its MTU is known; the rest by full queues.
					segments := size / c.mtu
					if n := retransmissions(t, conn); int(n) > segments/10 {
						t.Errorf("%d retransmissions of about %d segments", n, segments)
					}
					tooLong.Drain(t)
					// Pod A learns of a route from the errors about its first packets, and of a pod from its MSS.
					if n := tooLong.Count(); n > 0 && !c.ofRoute {
						t.Errorf("%d packets longer than %d bytes", n, c.mtu)
					}
				})
			}
		})
	}
}

// wireTwoGateways builds the topology with a second gateway of site A, a-1. The node of A sends through a-0; one of the
// two receives everything for A.
func wireTwoGateways(t *testing.T, sameMachine bool, receives string) *lab.Topology {
	t.Helper()
	top := lab.Wire(t, lab.Options{SameMachine: sameMachine})
	a, b := top.A, top.B
	const secondPort = lab.WireGuardPort + 10
	second := *a // its gateway's namespace is the same, its addresses are not
	second.GW4, second.Underlay = lab.Addr("10.0.1.3"), lab.Addr("10.0.1.3")
	a.GW.IP(t, fmt.Sprintf("addr add %s/32 dev eth0", second.GW4))
	a.Node.IP(t, fmt.Sprintf("route add %s dev gw0 src %s\nlink add strait1 address %s mtu 1450 type %s id %d remote %[1]s dstport %[6]d%[7]s\nlink set strait1 up",
		second.GW4, a.Bridge4, netns.TunnelMAC(lab.NodeInternal[0]), a.Encapsulation, lab.VNI+1, netns.TunnelPorts[a.Encapsulation],
		map[string]string{"geneve": " udpcsum", "vxlan": fmt.Sprintf(" local %s nolearning udpcsum", a.Bridge4)}[a.Encapsulation]))
	a.Node.Run(t, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.strait1.rp_filter=0")

	keys := [3]lab.KeyPair{lab.NewKeyPair(t), lab.NewKeyPair(t), lab.NewKeyPair(t)}
	gateways := []*lab.Gateway{lab.NewGateway(t, a, b, keys[0], keys[2].Public), lab.NewGateway(t, &second, b, keys[1], keys[2].Public), lab.NewGateway(t, b, a, keys[2], keys[0].Public)}
	c := &gateways[1].Config
	c.WireGuardPort, c.Observability, c.Nodes[0].VNI = secondPort, "127.0.0.1:8081", lab.VNI+1
	c.Addresses, c.ExternalAddresses = lab.Addrs("10.80.0.2", "fd00:80::2"), lab.Addrs("10.70.0.2", "fd00:70::2")
	for ordinal, g := range gateways[:2] {
		g.Config.Replicas, g.Config.Ordinal = 2, ordinal
	}
	// The gateway of B prefers the one with the same ordinal.
	gateways[2].Config.Replicas = 2
	if receives == "a-0" {
		gateways[2].Config.Ordinal = 1
	}
	gateways[2].Config.FirstPeers = []lab.PeerConfig{{
		Name: "a-1", Key: base64.StdEncoding.EncodeToString(keys[1].Public), Endpoint: netip.AddrPortFrom(a.WAN4, secondPort).String(),
	}}
	for _, g := range gateways {
		g.WriteConfig(t)
	}
	a.Gateway, b.Gateway = gateways[0], gateways[2]
	for _, g := range gateways {
		g.Start(t)
	}
	a.Gateway.WaitReady(t)
	b.Gateway.WaitReady(t)
	wait.Until(t, "gateway B sends everything to "+receives, func() bool {
		return b.Gateway.Metric(t, "strait_link_up") == 2 && b.Gateway.Metric(t, "strait_link_active", `peer="`+receives+`"`) == 1 && b.Gateway.Metric(t, "strait_link_active") == 1
	})
	returned := lab.ListenOn(t, a.Node, map[string]string{"a-0": "strait0", "a-1": "strait1"}[receives], func(frame []byte) bool {
		p, ok := lab.IPOf(frame)
		return ok && p.Proto == lab.ProtoICMP
	})
	lab.WaitForPing(t, a.Pod, a.Sees(b.Pod4))
	returned.First(t, "echo reply through "+receives)
	return top
}

// retransmissions returns how many segments the sender of a TCP connection sent again because they were lost. A busy
// machine delays acknowledgements until the sender probes for a loss; the receiver reports what arrives twice (RFC 2883).
func retransmissions(t *testing.T, c net.Conn) (n uint32) {
	t.Helper()
	if err := lab.Control(c.(*net.TCPConn), func(fd int) error {
		info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO)
		if err == nil {
			n = info.Total_retrans - min(info.Total_retrans, info.Dsack_dups)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return n
}
