//go:build lab || nightly

package forwarding

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/test/lab"
)

// Frames that no correct node sends. Gateway A drops each with its own reason, and none
// reaches pod B.
func TestInvalidFramesFromNodesAreDroppedByReason(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	a := top.A
	const port, copies = 9999, 3
	outsider := lab.Addr("192.0.2.99") // an address of the machine that is not the node's
	a.Node.IP(t, fmt.Sprintf("addr add %s/32 dev lo", outsider))
	far := a.Sees(top.B.Pod4)
	good := func() []byte { return lab.UDP4(a.Pod4, far, port, []byte("datagram")) }
	wrapped := func(inner []byte) []byte { return lab.OverlayFrame(a.Encapsulation, lab.VNI, inner) }
	arrived := lab.ListenOn(t, top.B.Pod, "eth0", lab.ToPort(port))

	for _, injected := range []struct {
		what     string
		reason   string
		outer    netip.Addr
		datagram []byte
	}{
		{"outer address of an unknown node", "unknown_source", outsider, wrapped(good())},
		{"another VNI", "wrong_vni", a.Bridge4, lab.OverlayFrame(a.Encapsulation, lab.VNI+1, good())},
		{"another encapsulation's header", headerReason[a.Encapsulation], a.Bridge4, lab.Edit(wrapped(good()), 0, foreignHeader[a.Encapsulation])},
		{"too short for Ethernet", "frame_truncated", a.Bridge4, wrapped(nil)[:8+13]},
		{"neither IP nor ARP", "frame_ethertype", a.Bridge4, lab.Edit(wrapped(good()), 8+12, 0x88, 0xcc)},
		{"sent by the gateway itself", "frame_loop", a.Bridge4, lab.Edit(wrapped(good()), 8+11, 1)},
		{"IP version 5", "ip_version", a.Bridge4, wrapped(lab.Edit(good(), 0, 0x55))},
		{"wrong header checksum", "ip_checksum", a.Bridge4, wrapped(lab.Edit(good(), 8, 63))},
		{"source of a pod without a node", "spoofed_source", a.Bridge4, wrapped(lab.UDP4(lab.Addr("10.0.9.9"), far, port, nil))},
		{"source of the gateway", "spoofed_source", a.Bridge4, wrapped(lab.UDP4(lab.GatewayInternal[0], far, port, nil))},
		{"loopback source", "martian", a.Bridge4, wrapped(lab.UDP4(lab.Addr("127.0.0.1"), far, port, nil))},
		{"multicast destination", "multicast", a.Bridge4, wrapped(lab.UDP4(a.Pod4, lab.Addr("224.0.0.251"), port, nil))},
		{"destination outside the grant", "destination_not_granted", a.Bridge4, wrapped(lab.UDP4(a.Pod4, lab.Addr("10.99.0.1"), port, nil))},
		{"expired hop limit", "ttl_exceeded", a.Bridge4, wrapped(withTTL(good(), 1))},
	} {
		t.Run(injected.what, func(t *testing.T) {
			before := a.Gateway.Drops(t, "egress", injected.reason)
			for range copies {
				sendFrom(t, a.Node, injected.outer, netip.AddrPortFrom(a.GW4, netns.TunnelPorts[a.Encapsulation]), injected.datagram)
			}
			// There may be more: the node's kernel sends multicast of its own.
			lab.Eventually(t, fmt.Sprintf("%d drops more as %s", copies, injected.reason), func() bool {
				return a.Gateway.Drops(t, "egress", injected.reason) >= before+copies
			})
		})
	}
	arrived.Never(t, "an injected packet reached pod B")

	// The same frame without a fault arrives: the others were dropped only because of their
	// faults.
	sendFrom(t, a.Node, a.Bridge4, netip.AddrPortFrom(a.GW4, netns.TunnelPorts[a.Encapsulation]), wrapped(good()))
	arrived.First(t, "the valid frame")
}

// B checks packets against its own configuration even if A's permits them.
func TestFarGatewayEnforcesItsGrant(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{Configure: func(s *lab.Site, c *lab.GatewayConfig) {
		if s.Name == "b" {
			c.LocalPrefixes = lab.Prefixes("10.0.0.0/17", "fd00:10::/48") // A still accepts 10.0.0.0/16
		}
	}})
	for destination, reason := range map[string]string{
		"10.71.200.1": "destination_not_granted", // 10.0.200.1: outside what B grants
		"10.71.100.1": "no_node",                 // 10.0.100.1: granted, but no node has it
	} {
		t.Run(reason, func(t *testing.T) {
			before := top.B.Gateway.Drops(t, "ingress", reason)
			_, _ = top.A.Pod.Try("ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", destination)
			lab.Eventually(t, "two drops more as "+reason, func() bool {
				return top.B.Gateway.Drops(t, "ingress", reason) == before+2
			})
		})
	}
}

// VXLAN without its I flag, Geneve of version 1.
var (
	headerReason  = map[string]string{"vxlan": "vxlan_flags", "geneve": "geneve_version"}
	foreignHeader = map[string]byte{"vxlan": 0x00, "geneve": 0x40}
)

// sendFrom sends one datagram from a local address of n.
func sendFrom(t *testing.T, n *lab.Namespace, src netip.Addr, to netip.AddrPort, datagram []byte) {
	t.Helper()
	err := n.In(func() error {
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0)), net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(datagram)
		return err
	})
	if err != nil {
		t.Fatalf("in %s: %v", n.Role, err)
	}
}

// withTTL sets an IPv4 packet's TTL and header checksum.
func withTTL(b []byte, ttl byte) []byte {
	b[8] = ttl
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint16(b[10:], ^lab.OnesSum(0, b[:20]))
	return b
}
