//go:build lab || nightly

package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"testing"
)

// Frames that no correct node sends. Gateway A drops each with its own reason, and none
// reaches pod B.
func TestInvalidFramesFromNodesAreDroppedByReason(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	a := top.a
	const port, copies = 9999, 3
	outsider := addr("192.0.2.99") // an address of the machine that is not the node's
	a.node.ip(t, fmt.Sprintf("addr add %s/32 dev lo", outsider))
	far := a.sees(top.b.pod4)
	good := func() []byte { return udp4(a.pod4, far, port, []byte("datagram")) }
	wrapped := func(inner []byte) []byte { return overlayFrame(a.encapsulation, vni, inner) }
	arrived := listenOn(t, top.b.pod, "eth0", toPort(port))

	for _, injected := range []struct {
		what     string
		reason   string
		outer    netip.Addr
		datagram []byte
	}{
		{"outer address of an unknown node", "unknown_source", outsider, wrapped(good())},
		{"another VNI", "wrong_vni", a.bridge4, overlayFrame(a.encapsulation, vni+1, good())},
		{"another encapsulation's header", headerReason[a.encapsulation], a.bridge4, edit(wrapped(good()), 0, foreignHeader[a.encapsulation])},
		{"too short for Ethernet", "frame_truncated", a.bridge4, wrapped(nil)[:8+13]},
		{"neither IP nor ARP", "frame_ethertype", a.bridge4, edit(wrapped(good()), 8+12, 0x88, 0xcc)},
		{"sent by the gateway itself", "frame_loop", a.bridge4, edit(wrapped(good()), 8+11, 1)},
		{"IP version 5", "ip_version", a.bridge4, wrapped(edit(good(), 0, 0x55))},
		{"wrong header checksum", "ip_checksum", a.bridge4, wrapped(edit(good(), 8, 63))},
		{"source of a pod without a node", "spoofed_source", a.bridge4, wrapped(udp4(addr("10.0.9.9"), far, port, nil))},
		{"source of the gateway", "spoofed_source", a.bridge4, wrapped(udp4(gatewayInternal[0], far, port, nil))},
		{"loopback source", "martian", a.bridge4, wrapped(udp4(addr("127.0.0.1"), far, port, nil))},
		{"multicast destination", "multicast", a.bridge4, wrapped(udp4(a.pod4, addr("224.0.0.251"), port, nil))},
		{"destination outside the grant", "destination_not_granted", a.bridge4, wrapped(udp4(a.pod4, addr("10.99.0.1"), port, nil))},
		{"expired hop limit", "ttl_exceeded", a.bridge4, wrapped(withTTL(good(), 1))},
	} {
		t.Run(injected.what, func(t *testing.T) {
			before := a.gateway.drops(t, "egress", injected.reason)
			for range copies {
				sendFrom(t, a.node, injected.outer, netip.AddrPortFrom(a.gw4, overlayPort[a.encapsulation]), injected.datagram)
			}
			// There may be more: the node's kernel sends multicast of its own.
			eventually(t, fmt.Sprintf("%d drops more as %s", copies, injected.reason), func() bool {
				return a.gateway.drops(t, "egress", injected.reason) >= before+copies
			})
		})
	}
	arrived.never(t, "an injected packet reached pod B")

	// The same frame without a fault arrives: the others were dropped only because of their
	// faults.
	sendFrom(t, a.node, a.bridge4, netip.AddrPortFrom(a.gw4, overlayPort[a.encapsulation]), wrapped(good()))
	arrived.first(t, "the valid frame")
}

// B checks packets against its own configuration even if A's permits them.
func TestFarGatewayEnforcesItsGrant(t *testing.T) {
	t.Parallel()
	top := build(t, options{configure: func(s *site, c *gatewayConfig) {
		if s.name == "b" {
			c.LocalPrefixes = prefixes("10.0.0.0/17", "fd00:10::/48") // A still accepts 10.0.0.0/16
		}
	}})
	for destination, reason := range map[string]string{
		"10.71.200.1": "destination_not_granted", // 10.0.200.1: outside what B grants
		"10.71.100.1": "no_node",                 // 10.0.100.1: granted, but no node has it
	} {
		t.Run(reason, func(t *testing.T) {
			before := top.b.gateway.drops(t, "ingress", reason)
			_, _ = top.a.pod.try("ping", "-n", "-c", "2", "-i", "0.2", "-W", "1", destination)
			eventually(t, "two drops more as "+reason, func() bool {
				return top.b.gateway.drops(t, "ingress", reason) == before+2
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
func sendFrom(t *testing.T, n *namespace, src netip.Addr, to netip.AddrPort, datagram []byte) {
	t.Helper()
	err := n.in(func() error {
		c, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(src, 0)), net.UDPAddrFromAddrPort(to))
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write(datagram)
		return err
	})
	if err != nil {
		t.Fatalf("in %s: %v", n.role, err)
	}
}

// withTTL sets an IPv4 packet's TTL and header checksum.
func withTTL(b []byte, ttl byte) []byte {
	b[8] = ttl
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint16(b[10:], ^onesSum(0, b[:20]))
	return b
}
