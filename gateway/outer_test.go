package gateway_test

import (
	"bytes"
	"slices"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// Every outer source with every VNI and both encapsulations: of all these, each
// node has one, and the sender gets no hint how close it came.
func TestG8_G9_T1_OnlyItsOwnNodeUsesAVNI(t *testing.T) {
	t.Parallel()
	sources := []string{
		"192.0.2.21", "2001:db8::22", // the nodes
		"192.0.2.20", "192.0.2.99", "2001:db8::21", "127.0.0.1", "::1", "0.0.0.0", "::",
		"::ffff:192.0.2.21", // node-1 in the clothes of IPv6: the socket says who it is, and says it in one way
		v4.podA, v4.seenPodB, v4.gateway,
	}
	// 0, the neighbours of the nodes' VNIs, those a byte further up, those that have
	// the same low bytes, and the largest.
	vnis := []uint32{0, 100, 101, 102, 103, 101 << 8, 102 << 16, 1<<8 | 101, 1<<16 | 101, 1<<23 | 102, 1<<24 - 1}
	senders := map[wire]string{node1A: v4.podA, node2A: v4.otherPodA}
	accepted := 0
	a := newA(t)
	for _, source := range sources {
		for _, vni := range vnis {
			for _, encapsulation := range []gateway.Encapsulation{gateway.Geneve, gateway.VXLAN} {
				for honest, pod := range senders {
					w := wire{addr(source), vni, encapsulation, honest.mac}
					r := a.send(w, w.frame(flow{src: pod, dst: v4.seenPodB}.udp(counting(20))))
					if w == honest {
						expectVerdict(t, r, gateway.ToTunnel)
						accepted++
						continue
					}
					if r.Verdict != gateway.Drop || r.Answer != nil {
						t.Fatalf("%v with VNI %d and encapsulation %d sends for %s: verdict %d, answer % x", source, vni, encapsulation, pod, r.Verdict, r.Answer)
					}
					if want := unknownSourceReason(w); r.Reason != want && !isNode(w) {
						t.Fatalf("%v with VNI %d and encapsulation %d: dropped for %q, want %q", source, vni, encapsulation, r.Reason, want)
					}
				}
			}
		}
	}
	if accepted != len(senders) {
		t.Errorf("%d accepted, want %d", accepted, len(senders))
	}
}

// isNode reports whether a frame with this encapsulation belongs to a node.
func isNode(w wire) bool {
	return slices.ContainsFunc([]wire{node1A, node2A}, func(n wire) bool {
		return w.underlay == n.underlay && w.vni == n.vni && w.encapsulation == n.encapsulation
	})
}

// unknownSourceReason is the reason to drop what is no node's.
func unknownSourceReason(w wire) gateway.Reason {
	if w.underlay == node1A.underlay || w.underlay == node2A.underlay {
		return gateway.WrongVNI
	}
	return gateway.UnknownSource
}

// A node's old address is unknown as soon as its new one is configured.
func TestG9_T1_ANodeThatMovedIsRejectedAtItsOldAddress(t *testing.T) {
	t.Parallel()
	a := newA(t)
	frame := func() []byte { return node1A.frame(flow{src: v4.podA, dst: v4.seenPodB}.udp(nil)) }
	expectVerdict(t, a.send(node1A, frame()), gateway.ToTunnel)
	moved := node1A
	moved.underlay = addr("192.0.2.200")
	expectDrop(t, a.send(moved, frame()), gateway.UnknownSource)
	a.SetTable(tableOf(t, configured(t, clusterA, func(c *config.Gateway) { c.Overlay.Nodes[0].Underlay = moved.underlay }), mtus))
	expectVerdict(t, a.send(moved, frame()), gateway.ToTunnel)
	expectDrop(t, a.send(node1A, frame()), gateway.UnknownSource)
}

// Regardless of contents and destination: with the gateway's own MAC as its
// source it has been here before.
func TestG10_FramesOfTheGatewayItselfAreLoops(t *testing.T) {
	t.Parallel()
	for _, w := range []wire{node1A, node2A} {
		pod, pod6 := v4.podA, v6.podA
		if w == node2A {
			pod, pod6 = v4.otherPodA, v6.otherPodA
		}
		for name, f := range map[string]struct {
			etherType uint16
			payload   []byte
		}{
			"IPv4":   {0x0800, flow{src: pod, dst: v4.seenPodB}.udp(nil)},
			"IPv6":   {0x86dd, flow{src: pod6, dst: v6.seenPodB}.udp(nil)},
			"ARP":    {0x0806, arpRequest(w, v4.node, v4.gateway)[8+14:]},
			"a VLAN": {0x8100, counting(60)},
		} {
			for _, dst := range [][6]byte{gatewayMAC, w.mac, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}} {
				r := newA(t).send(w, w.ethernet(dst, gatewayMAC, f.etherType, f.payload))
				expectDrop(t, r, gateway.FrameLoop)
				if r.Answer != nil {
					t.Errorf("%s in VNI %d: a loop was answered", name, w.vni)
				}
			}
		}
		// A MAC that differs in one byte is another's.
		for i := range gatewayMAC {
			mac := gatewayMAC
			mac[i]++
			expectVerdict(t, newA(t).send(w, w.ethernet(gatewayMAC, mac, 0x0800, flow{src: pod, dst: v4.seenPodB}.udp(nil))), gateway.ToTunnel)
		}
	}
}

func TestRFC7348VLAN_TaggedFramesAreDropped(t *testing.T) {
	t.Parallel()
	for _, w := range []wire{node1A, node2A} {
		pod := map[wire]string{node1A: v4.podA, node2A: v4.otherPodA}[w]
		inner := flow{src: pod, dst: v4.seenPodB}.udp(nil)
		for _, tag := range []uint16{0x8100, 0x88a8, 0x9100} {
			for _, id := range []uint16{0, 1, 4095} {
				tagged := append([]byte{byte(id >> 8), byte(id), 0x08, 0x00}, inner...)
				expectDrop(t, newA(t).send(w, w.ethernet(gatewayMAC, w.mac, tag, tagged)), gateway.FrameEtherType)
			}
		}
		expectVerdict(t, newA(t).send(w, w.frame(inner)), gateway.ToTunnel)
	}
}

// What the gateway sends to a node is never longer than the node leg carries, so
// no outer packet needs to be a fragment.
func TestG15_RFC7348Fragment_WhatDoesNotFitIsCutOrRefusedInside(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, pod := range []string{w.podA, w.otherPodA} { // behind Geneve, behind VXLAN
			for _, n := range []int{overlayMTU, overlayMTU + 1, 4000, 65_000} {
				r := newA(t).fromTunnel(sized(n, flow{src: w.podB, dst: pod}))
				if w == v6 && n > overlayMTU {
					expectDrop(t, r, gateway.TooBig)
					continue
				}
				expectVerdict(t, r, gateway.ToNode)
				for _, b := range pieces(t, r, overlayMTU) {
					if len(b) > overlayMTU {
						t.Errorf("%d bytes to %s, %d fit", len(b), pod, overlayMTU)
					}
				}
				expectDrop(t, newA(t).fromTunnel(sized(max(n, overlayMTU+1), flow{src: w.podB, dst: pod, df: true})), gateway.TooBig)
			}
		}
	}
}

// The inner MTU is the interface's less this and the outer headers.
func TestOverhead_OfTheNodeLegIs50BytesOverIPv4And70OverIPv6(t *testing.T) {
	t.Parallel()
	const udp, ipv4, ipv6 = 8, 20, 40
	if n := gateway.EncapLen + udp + ipv4; n != 50 {
		t.Errorf("%d bytes over IPv4", n)
	}
	if n := gateway.EncapLen + udp + ipv6; n != 70 {
		t.Errorf("%d bytes over IPv6", n)
	}
	for _, pod := range []string{v4.podA, v4.otherPodA} {
		r := newA(t).fromTunnel(flow{src: v4.podB, dst: pod}.udp(nil))
		expectVerdict(t, r, gateway.ToNode)
		if n := len(r.Node.Header(4)); n != gateway.EncapLen {
			t.Errorf("%d bytes before a packet to %s, want %d", n, r.Node.Name, gateway.EncapLen)
		}
	}
}

// What crosses gets no bytes from the outer world: the same packet leaves, whichever
// encapsulation and however many options brought it.
func TestG4_G6_OptionsLeaveNoTraceInThePacket(t *testing.T) {
	t.Parallel()
	inner := flow{src: v4.podA, dst: v4.seenPodB}.udp(counting(64))
	plain := bytes.Clone(newA(t).fromNode(bytes.Clone(inner)).Packet)
	for words := range 63 {
		option := append([]byte{0x01, 0x02, 0x7f, byte(min(words, 31))}, make([]byte, min(words, 31)*4)...)
		header := slices.Concat([]byte{byte(len(option) / 4), 0x3f, 0x65, 0x58, 0, 0, 101, 0xff}, option)
		r := newA(t).send(node1A, slices.Concat(header, node1A.frame(bytes.Clone(inner))[8:]))
		expectVerdict(t, r, gateway.ToTunnel)
		if !bytes.Equal(r.Packet, plain) {
			t.Fatalf("behind an option of %d words\ngot  % x\nwant % x", words, r.Packet, plain)
		}
	}
}
