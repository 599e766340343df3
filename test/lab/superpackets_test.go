//go:build lab || nightly

package lab

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/wait"
)

// A server on the gateway's machine answers with a segment and a bit: both fit the tunnel together, but not the far pod,
// whose interface carries less. Nothing may be lost.
func TestAnswersOfAPodOnTheGatewaysMachineFitASmallerFarPod(t *testing.T) {
	t.Parallel()
	top := build(t, options{sameMachine: true})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		w.to.ip(t, fmt.Sprintf("link set eth0 mtu %d", smallMTU))
		defer w.to.ip(t, fmt.Sprintf("link set eth0 mtu %d", linkMTU))
		const request, answer, times = 100, 1338, 50
		l := w.from.listenTCP(t, netip.AddrPortFrom(w.src, 80))
		client := w.to.dial(t, "tcp", netip.AddrPortFrom(w.srcSeen, 80))
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
		{"nothing carries less", true, linkMTU, false},
		{"the far pod accepts less", true, smallMTU, false},
		{"the far pod accepts 1280 bytes", true, 1280, false},
		{"the far pod accepts 1000 bytes", true, 1000, false},
		{"a route of the far node carries less", true, smallMTU, true},
		{"a route of the far node carries 1000 bytes", true, 1000, true},
		{"segments, the far pod accepts less", false, smallMTU, false},
		{"segments, the far pod accepts 1000 bytes", false, 1000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			top := wireTwoGateways(t, c.superPackets, "a-1")
			top.b.node.run(t, "ethtool", "-K", "strait0", "gro", "off") // what it coalesces passes interfaces of any MTU
			if far := top.b; c.ofRoute {
				far.node.ip(t, fmt.Sprintf("route replace %s dev pod mtu lock %[3]d\nroute replace %[2]s dev pod mtu lock %[3]d", far.pod4, far.pod6, c.mtu))
			} else {
				far.pod.ip(t, fmt.Sprintf("link set eth0 mtu %d", c.mtu))
			}
			directions := []direction{newDirection(top.a, top.b, top.a.pod4, top.b.pod4)}
			if c.mtu >= 1280 { // the minimum of IPv6
				directions = append(directions, newDirection(top.a, top.b, top.a.pod6, top.b.pod6))
			}
			for _, w := range directions {
				t.Run(w.name(), func(t *testing.T) {
					const size = 16 << 20
					tooLong := listenOn(t, top.b.node, "strait0", func(frame []byte) bool {
						p, ok := ipOf(frame)
						return ok && p.proto == protoTCP && p.total > c.mtu
					})
					l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 5001))
					go serveDigests(l)
					conn := w.from.dial(t, "tcp", netip.AddrPortFrom(w.seen, 5001))
					if err := sendChecked(conn, 1, size); err != nil {
						t.Error(err)
					}
					// Segments that the path refuses are lost once, before its MTU is known; the rest by full queues.
					segments := size / c.mtu
					if n := retransmissions(t, conn); int(n) > segments/10 {
						t.Errorf("%d retransmissions of about %d segments", n, segments)
					}
					tooLong.drain(t)
					// Pod A learns of a route from the errors about its first packets, and of a pod from its MSS.
					if n := tooLong.count(); n > 0 && !c.ofRoute {
						t.Errorf("%d packets longer than %d bytes", n, c.mtu)
					}
				})
			}
		})
	}
}

// wireTwoGateways builds the topology with a second gateway of site A, a-1. The node of A sends through a-0; one of the
// two receives everything for A.
func wireTwoGateways(t *testing.T, sameMachine bool, receives string) *topology {
	t.Helper()
	top := wire(t, options{sameMachine: sameMachine})
	a, b := top.a, top.b
	const secondPort = wireGuardPort + 10
	second := *a // its gateway's namespace is the same, its addresses are not
	second.gw4, second.underlay = addr("10.0.1.3"), addr("10.0.1.3")
	a.gw.ip(t, fmt.Sprintf("addr add %s/32 dev eth0", second.gw4))
	a.node.ip(t, fmt.Sprintf("route add %s dev gw0 src %s\nlink add strait1 address %s mtu 1450 type %s id %d remote %[1]s dstport %[6]d%[7]s\nlink set strait1 up",
		second.gw4, a.bridge4, overlayMAC(nodeInternal[0]), a.encapsulation, vni+1, overlayPort[a.encapsulation],
		map[string]string{"geneve": " udpcsum", "vxlan": fmt.Sprintf(" local %s nolearning udpcsum", a.bridge4)}[a.encapsulation]))
	a.node.run(t, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.strait1.rp_filter=0")

	keys := [3]keyPair{newKeyPair(t), newKeyPair(t), newKeyPair(t)}
	gateways := []*gateway{newGateway(t, a, b, keys[0], keys[2].public), newGateway(t, &second, b, keys[1], keys[2].public), newGateway(t, b, a, keys[2], keys[0].public)}
	c := &gateways[1].config
	c.WireGuardPort, c.Observability, c.Nodes[0].VNI = secondPort, "127.0.0.1:8081", vni+1
	c.Addresses, c.ExternalAddresses = addrs("10.80.0.2", "fd00:80::2"), addrs("10.70.0.2", "fd00:70::2")
	for ordinal, g := range gateways[:2] {
		g.config.Replicas, g.config.Ordinal = 2, ordinal
	}
	// The gateway of B prefers the one with the same ordinal.
	gateways[2].config.Replicas = 2
	if receives == "a-0" {
		gateways[2].config.Ordinal = 1
	}
	gateways[2].config.FirstPeers = []peerConfig{{"a-1", base64.StdEncoding.EncodeToString(keys[1].public), netip.AddrPortFrom(a.wan4, secondPort).String()}}
	for _, g := range gateways {
		g.writeConfig(t)
	}
	a.gateway, b.gateway = gateways[0], gateways[2]
	for _, g := range gateways {
		g.start(t)
	}
	a.gateway.waitReady(t)
	b.gateway.waitReady(t)
	wait.Until(t, "gateway B sends everything to "+receives, func() bool {
		return b.gateway.metric(t, "strait_link_up") == 2 && b.gateway.metric(t, "strait_link_active", `peer="`+receives+`"`) == 1 && b.gateway.metric(t, "strait_link_active") == 1
	})
	returned := listenOn(t, a.node, map[string]string{"a-0": "strait0", "a-1": "strait1"}[receives], func(frame []byte) bool {
		p, ok := ipOf(frame)
		return ok && p.proto == protoICMP
	})
	waitForPing(t, a.pod, a.sees(b.pod4))
	returned.first(t, "echo reply through "+receives)
	return top
}

// retransmissions returns how many segments the sender of a TCP connection sent again because they were lost. A busy
// machine delays acknowledgements until the sender probes for a loss; the receiver reports what arrives twice (RFC 2883).
func retransmissions(t *testing.T, c net.Conn) (n uint32) {
	t.Helper()
	if err := control(c.(*net.TCPConn), func(fd int) error {
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
