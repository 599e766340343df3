package gateway_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// masqueradeAll masquerades all sources.
func masqueradeAll(c *config.Gateway) {
	c.Masquerade.Sources = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
}

// withFlows is gateway A with room for some flows.
func withFlows(t testing.TB, flows, perSource int, edits ...func(*config.Gateway)) *side {
	t.Helper()
	a := newA(t, append([]func(*config.Gateway){masqueradeAll}, edits...)...)
	a.setFlows(flows, perSource)
	return a
}

func (s *side) setFlows(flows, perSource int) {
	f := gateway.NewFlows(gateway.FlowsConfig{Flows: flows, FlowsPerSource: perSource, Random: rand.NewPCG(1, 2), Epoch: start})
	f.Use(s.Table().ExternalAddresses())
	s.SetFlows(f)
}

// masqueradeForeign makes gateway A one that masquerades all sources, with capacity for some flows,
// of which one source may have one.
func (s *side) masqueradeForeign(t testing.TB, flows int) {
	t.Helper()
	s.SetTable(tableOf(t, configured(t, clusterA, masqueradeAll), mtus))
	s.setFlows(flows, 1)
}

// fromNode2 sends an IP packet from node-2.
func (s *side) fromNode2(b []byte) gateway.Result { return s.send(node2A, node2A.frame(b)) }

// protocols that are masqueraded: a packet of a flow, and the one that answers what is
// seen of it.
var masqueraded = []struct {
	name   string
	ask    func(f flow) []byte
	answer func(asked view) []byte
}{
	{"UDP", func(f flow) []byte { return f.udp(counting(33)) }, func(asked view) []byte { return answering(asked).udp(counting(44)) }},
	{"TCP", func(f flow) []byte { return f.tcp(syn, mss(1460), nil) }, func(asked view) []byte { return answering(asked).tcp(syn|ack, mss(1460), nil) }},
	{"ping", func(f flow) []byte { return f.icmp(8, 128, uint32(f.sourcePort())<<16|1, counting(20)) },
		func(asked view) []byte {
			id := uint32(asked.upper[4])<<24 | uint32(asked.upper[5])<<16 | 1
			return answering(asked).icmp(0, 129, id, counting(20))
		}},
}

// answering is the flow back to where a packet came from.
func answering(asked view) flow {
	return flow{
		src: asked.dst.String(), dst: asked.src.String(),
		from: port(asked.upper[2:]), to: port(asked.upper),
	}
}

func port(b []byte) uint16 { return uint16(b[0])<<8 | uint16(b[1]) }

// id is the port or identifier that a flow has at its asking end.
func id(v view) uint16 {
	if v.proto == packet.ProtoICMP || v.proto == packet.ProtoICMPv6 {
		return port(v.upper[4:])
	}
	if v.dst == addr(v4.foreign) || v.dst == addr(v6.foreign) {
		return port(v.upper[2:])
	}
	return port(v.upper)
}

func TestMasqueradedSourcesUseTheGatewaysAddressAndGetReplies(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, p := range masqueraded {
			a := withFlows(t, 16, 16)
			r := a.fromNode(p.ask(flow{src: w.foreign, dst: w.seenPodB, from: 5555, df: true}))
			expectVerdict(t, r, gateway.ToTunnel)
			asked := expect(t, r.Packet, w.gateOut, w.podB, 63)
			if id(asked) == 5555 {
				t.Errorf("%s: the port is still the inside port", p.name)
			}
			r = a.fromTunnel(p.answer(asked))
			expectVerdict(t, r, gateway.ToNode)
			answered := expect(t, r.Packet, w.seenPodB, w.foreign, 63)
			if r.Node.Name != "node-1" || id(answered) != 5555 {
				t.Errorf("%s: answered to port %d behind %s", p.name, id(answered), r.Node.Name)
			}
		}
	}
}

// The client of a Service may come by another node after its connection was moved there.
func TestAnswersFollowTheNodeThatTheLastPacketCameFrom(t *testing.T) {
	t.Parallel()
	a := withFlows(t, 16, 16)
	ask := flow{src: v4.foreign, dst: v4.seenPodB, from: 5555}.udp(nil)
	asked := receive(t, a.fromNode(ask).Packet)
	again := receive(t, a.fromNode2(flow{src: v4.foreign, dst: v4.seenPodB, from: 5555}.udp(nil)).Packet)
	if asked.src != again.src || port(asked.upper) != port(again.upper) {
		t.Fatalf("%v:%d became %v:%d at another node", asked.src, port(asked.upper), again.src, port(again.upper))
	}
	r := a.fromTunnel(answering(asked).udp(nil))
	expectVerdict(t, r, gateway.ToNode)
	if r.Node.Name != "node-2" {
		t.Errorf("answered to %s", r.Node.Name)
	}
}

func TestT2_OnlyConfiguredSourcesAreMasqueraded(t *testing.T) {
	t.Parallel()
	some := func(c *config.Gateway) {
		c.Masquerade.Sources = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	}
	for _, w := range families {
		for _, c := range []struct {
			name, src string
			reason    gateway.Reason
			edit      func(*config.Gateway)
		}{
			{"not named", w.foreign, gateway.SpoofedSource, some},
			{"a pod of another node", w.otherPodA, gateway.SpoofedSource, masqueradeAll},
			{"a pod of no node", w.absentPod, gateway.SpoofedSource, masqueradeAll},
			{"another node", w.nodeWithout, gateway.SpoofedSource, masqueradeAll},
			{"the gateway", w.gateway, gateway.SpoofedSource, masqueradeAll},
			{"the gateway's external address", w.gateOut, gateway.SpoofedSource, masqueradeAll},
			{"a node's external address", w.nodeOut, gateway.SpoofedSource, masqueradeAll},
			{"a pod of the other cluster", w.seenPodB, gateway.SpoofedSource, masqueradeAll},
			{"loopback", map[bool]string{true: "127.0.0.1", false: "::1"}[w == v4], gateway.Martian, masqueradeAll},
			{"link-local", map[bool]string{true: "169.254.1.1", false: "fe80::1"}[w == v4], gateway.Martian, masqueradeAll},
			{"multicast", w.multicast, gateway.Martian, masqueradeAll},
		} {
			a := withFlows(t, 16, 16, c.edit)
			r := a.fromNode(flow{src: c.src, dst: w.seenPodB}.udp(nil))
			expectDrop(t, r, c.reason)
			if n := a.Flows().Stats(start).Flows; n != 0 {
				t.Errorf("%s: %d flows", c.name, n)
			}
		}
	}
}

func TestT15_WithoutSourcesOrFlowsNothingIsMasqueraded(t *testing.T) {
	t.Parallel()
	none := withFlows(t, 16, 16, func(c *config.Gateway) { c.Masquerade.Sources = nil })
	without := newA(t, masqueradeAll)
	for name, a := range map[string]*side{"no sources": none, "no flows": without} {
		if r := a.fromNode(flow{src: v4.foreign, dst: v4.seenPodB}.udp(nil)); r.Reason != gateway.SpoofedSource {
			t.Errorf("%s: %q", name, r.Reason)
		}
	}
}

func TestMasqueradedSourcesReachOnlyTheRemoteCluster(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, dst := range []string{w.gateway, w.podA, w.otherPodA, w.absentPod, w.node, w.nodeWithout} {
			r := withFlows(t, 16, 16).fromNode(flow{src: w.foreign, dst: dst}.udp(nil))
			if r.Verdict != gateway.Drop || r.Reason != gateway.DestinationNotGranted {
				t.Errorf("%s: verdict %d, %q", dst, r.Verdict, r.Reason)
			}
		}
	}
}

func TestRFC5382REQ4_UnsolicitedPacketsAreDroppedSilently(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 16, 16)
		ask := flow{src: w.foreign, dst: w.seenPodB, from: 5555}
		asked := receive(t, a.fromNode(ask.udp(nil)).Packet)
		for name, b := range map[string][]byte{
			"a SYN":               flow{src: w.podB, dst: w.gateOut, to: 6000}.tcp(syn, nil, nil),
			"the port of another": flow{src: w.podB, dst: w.gateOut, to: port(asked.upper)}.tcp(syn, nil, nil),
			"a foreign source":    flow{src: w.otherPodA, dst: w.gateOut, to: port(asked.upper)}.udp(nil),
			"an echo reply":       flow{src: w.podB, dst: w.gateOut}.icmp(0, 129, 0x00070001, nil),
		} {
			r := a.fromTunnel(b)
			if r.Verdict != gateway.Drop || r.Reason != gateway.NATNoMapping || r.Answer != nil {
				t.Errorf("%s: verdict %d, %q, answered % x", name, r.Verdict, r.Reason, r.Answer)
			}
		}
		expectVerdict(t, a.fromTunnel(flow{src: w.podB, dst: w.gateOut}.echo(nil)), gateway.ToHost)
	}
}

func TestT10_OneSourceCannotTakeTheFlowsOfOthers(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 64, 8)
		other := flow{src: w.foreign, dst: w.seenPodB, from: 77}
		asked := receive(t, a.fromNode(other.udp(nil)).Packet)
		greedy := addr(w.foreign).Next().String()
		refused := 0
		for i := range 100 {
			r := a.fromNode(flow{src: greedy, dst: w.seenPodB, from: uint16(2000 + i)}.udp(nil))
			if r.Verdict == gateway.ToTunnel {
				continue
			}
			expectDrop(t, r, gateway.NATQuota)
			if refused++; refused == 1 {
				expectError(t, r.Answer, w.gateway, greedy, 64, prohibited)
			}
		}
		if refused != 92 {
			t.Errorf("%d refused, want 92", refused)
		}
		if r := a.fromNode(flow{src: addr(greedy).Next().String(), dst: w.seenPodB}.udp(nil)); r.Verdict != gateway.ToTunnel {
			t.Errorf("a third one: %q", r.Reason)
		}
		expectVerdict(t, a.fromTunnel(answering(asked).udp(nil)), gateway.ToNode)
	}
}

func TestRFC5508REQ8_ExhaustionIsAnsweredAndHarmsNoFlow(t *testing.T) {
	t.Parallel()
	a := withFlows(t, 4, 4)
	var first view
	for i := range 5 {
		src := fmt.Sprintf("198.51.100.%d", 10+i)
		r := a.fromNode(flow{src: src, dst: v4.seenPodB}.udp(nil))
		switch {
		case i == 0:
			first = receive(t, slices.Clone(r.Packet))
		case i == 4:
			expectDrop(t, r, gateway.NATExhausted)
			expectError(t, r.Answer, v4.gateway, src, 64, prohibited)
		}
	}
	expectVerdict(t, a.fromTunnel(answering(first).udp(nil)), gateway.ToNode)
}

func TestNATProtocol_WhatHasNoPortsIsNotMasqueraded(t *testing.T) {
	t.Parallel()
	a := withFlows(t, 16, 16)
	expectDrop(t, a.fromNode(flow{src: v4.foreign, dst: v4.seenPodB}.raw(packet.ProtoSCTP, counting(20))), gateway.NATProtocol)
	expectDrop(t, a.fromNode(flow{src: v4.foreign, dst: v4.seenPodB}.icmp(13, 200, 0, counting(12))), gateway.NATProtocol)
}

// Errors from the far side about a masqueraded packet reach its source, and quote the packet
// as its source sent it.
func TestRFC5508REQ4_RFC5382REQ9_ErrorsAboutMasqueradedPacketsReachTheirSource(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, p := range masqueraded {
			a := withFlows(t, 16, 16)
			ask := p.ask(flow{src: w.foreign, dst: w.seenPodB, from: 5555, df: true})
			asked := receive(t, a.fromNode(slices.Clone(ask)).Packet)
			for _, router := range []string{w.podB, w.gateOut} {
				r := a.fromTunnel(flow{src: router, dst: w.gateOut}.unreachable(asked.bytes))
				expectVerdict(t, r, gateway.ToNode)
				from := w.seenPodB
				if router == w.gateOut {
					from = w.seenGatewayB
				}
				v := expect(t, r.Packet, from, w.foreign, 63)
				quoted := read(t, v.upper[8:])
				if quoted.src != addr(w.foreign) || quoted.dst != addr(w.seenPodB) || id(quoted) != 5555 {
					t.Errorf("%s: quotes %v to %v, %d", p.name, quoted.src, quoted.dst, id(quoted))
				}
			}
			if r := a.fromTunnel(p.answer(asked)); r.Verdict != gateway.ToNode { // RFC 4787 REQ-12, RFC 5382 REQ-10
				t.Errorf("%s: an error ended the flow: %q", p.name, r.Reason)
			}
		}
	}
}

// Errors that a masqueraded source, or a router before it, sends about a reply reach the pod, and
// speak of the address that the pod knows.
func TestRFC5508REQ5_ErrorsFromMasqueradedSourcesReachTheRemoteCluster(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 16, 16)
		asked := receive(t, slices.Clone(a.fromNode(flow{src: w.foreign, dst: w.seenPodB, from: 5555}.udp(nil)).Packet))
		answer := slices.Clone(a.fromTunnel(answering(asked).udp(counting(20))).Packet)
		for _, router := range []string{w.foreign, addr(w.foreign).Next().String(), w.node} {
			r := a.fromNode(flow{src: router, dst: w.seenPodB}.unreachable(answer))
			expectVerdict(t, r, gateway.ToTunnel)
			from := w.gateOut
			if router == w.node {
				from = w.nodeOut
			}
			v := expect(t, r.Packet, from, w.podB, 63)
			quoted := read(t, v.upper[8:])
			if quoted.src != addr(w.podB) || quoted.dst != addr(w.gateOut) || port(quoted.upper[2:]) != port(asked.upper) {
				t.Errorf("from %s: quotes %v to %v, port %d", router, quoted.src, quoted.dst, port(quoted.upper[2:]))
			}
		}
		r := a.fromNode(flow{src: w.foreign, dst: w.seenPodB}.unreachable(flow{src: w.seenPodB, dst: w.foreign, to: 5556}.udp(nil)))
		expectDrop(t, r, gateway.ICMPUnrelated)
	}
}

func TestRFC4787REQ14_MasqueradedFragmentsPassInAnyOrderInBothDirections(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 16, 16)
		f := flow{src: w.foreign, dst: w.seenPodB, from: 5555, proto: packet.ProtoUDP}
		whole := read(t, f.udp(counting(3500))).upper
		parts := [][]byte{f.piece(0, true, whole[:1200]), f.piece(1200, true, whole[1200:2400]), f.piece(2400, false, whole[2400:])}
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
			var r gateway.Result
			for i, n := range order {
				r = a.fromNode(slices.Clone(parts[n]))
				if i < 2 && (r.Verdict != gateway.Drop || r.Reason != gateway.NoReason) {
					t.Fatalf("fragment %d of %v: verdict %d, %q", i, order, r.Verdict, r.Reason)
				}
			}
			expectVerdict(t, r, gateway.ToTunnel)
			left := pieces(t, r, tunnelMTU)
			for _, b := range left {
				expect(t, b, w.gateOut, w.podB, 63)
			}
			got, last := reassemble(t, left, 0)
			if !last || !bytes.Equal(got[8:], counting(3500)) {
				t.Fatalf("%v: %d bytes became something else", order, len(got))
			}

			back := flow{src: w.podB, dst: w.gateOut, from: 443, to: port(got), proto: packet.ProtoUDP}
			answer := read(t, back.udp(counting(2400))).upper
			expectDropSilently(t, a.fromTunnel(back.piece(1200, false, answer[1200:])))
			r = a.fromTunnel(back.piece(0, true, answer[:1200]))
			expectVerdict(t, r, gateway.ToNode)
			came, last := reassemble(t, pieces(t, r, overlayMTU), 0)
			if !last || !bytes.Equal(came[8:], counting(2400)) || port(came[2:]) != 5555 {
				t.Fatalf("%v: the answer became something else", order)
			}
		}
	}
}

// Pods have no external address in their own cluster, so their packets to one of it are masqueraded too.
func TestRFC4787REQ14_HairpinnedFragmentsOfPodsPassInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 16, 16)
		f := flow{src: w.podA, dst: w.nodeOut, from: 5555, proto: packet.ProtoUDP}
		whole := read(t, f.udp(counting(2400))).upper
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			parts := [][]byte{f.piece(0, true, whole[:1200]), f.piece(1200, false, whole[1200:])}
			expectDropSilently(t, a.fromNode(parts[order[0]]))
			r := a.fromNode(parts[order[1]])
			expectVerdict(t, r, gateway.ToNode)
			left := pieces(t, r, overlayMTU)
			for _, b := range left {
				expect(t, b, w.gateOut, w.node, 63)
			}
			if got, last := reassemble(t, left, 0); !last || !bytes.Equal(got[8:], counting(2400)) {
				t.Fatalf("%v: %d bytes became something else", order, len(got))
			}
		}
	}
}

// The caller of a journey has to copy the packets that lie in the journey's memory.
func TestOnlyReassembledPacketsAreMarkedSo(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 16, 16)
		f := flow{src: w.foreign, dst: w.seenPodB, from: 5555, proto: packet.ProtoUDP}
		payload := read(t, f.udp(counting(800))).upper
		for _, again := range []bool{false, true} { // the mark ends with the packet
			r := a.fromNode(f.udp(counting(80)))
			if r.Reassembled {
				t.Errorf("from a node, after a reassembled one %v: a whole packet is marked", again)
			}
			back := flow{src: w.podB, dst: w.gateOut, from: 443, to: port(read(t, r.Packet).upper), proto: packet.ProtoUDP}
			if a.fromTunnel(back.udp(counting(80))).Reassembled {
				t.Errorf("from the tunnel, after a reassembled one %v: a whole packet is marked", again)
			}
			expectDropSilently(t, a.fromNode(f.piece(0, true, payload[:400])))
			if r = a.fromNode(f.piece(400, false, payload[400:])); !r.Reassembled {
				t.Errorf("from a node: verdict %d, %q, and no mark", r.Verdict, r.Reason)
			}
			answer := read(t, back.udp(counting(800))).upper
			expectDropSilently(t, a.fromTunnel(back.piece(0, true, answer[:400])))
			if r = a.fromTunnel(back.piece(400, false, answer[400:])); r.Verdict != gateway.ToNode || !r.Reassembled {
				t.Errorf("from the tunnel: verdict %d, %q, and no mark", r.Verdict, r.Reason)
			}
		}
	}
}

func expectDropSilently(t *testing.T, r gateway.Result) {
	t.Helper()
	if r.Verdict != gateway.Drop || r.Reason != gateway.NoReason || r.Answer != nil {
		t.Fatalf("verdict %d, %q, answered % x", r.Verdict, r.Reason, r.Answer)
	}
}

// I10, RFC 6864 section 4.3: what many send under one address is told apart.
func TestI10_MasqueradedDatagramsHaveDistinctIdentifications(t *testing.T) {
	t.Parallel()
	a := withFlows(t, 1000, 1000)
	seen := make(map[uint16]bool)
	for i := range 100 {
		r := a.fromNode(flow{src: fmt.Sprintf("198.51.100.%d", i+1), dst: v4.seenPodB}.udp(nil))
		seen[port(r.Packet[4:])] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d identifications for 100 datagrams", len(seen))
	}
}

func TestT11_FragmentsThatNeverEndAreBoundedAndCounted(t *testing.T) {
	t.Parallel()
	a := withFlows(t, 16, 16)
	for i := range 20_000 {
		f := flow{src: fmt.Sprintf("198.51.%d.%d", i>>8, i&255), dst: v4.seenPodB, proto: packet.ProtoUDP}
		expectVerdict(t, a.fromNode(f.piece(1480, true, counting(1200))), gateway.Drop)
	}
	if n := a.egress.Dropped(gateway.FragmentMemory); n < 10_000 {
		t.Errorf("%d given up for want of memory", n)
	}
	a.now = a.now.Add(time.Minute)
	expectVerdict(t, a.fromNode(flow{src: v4.foreign, dst: v4.seenPodB, proto: packet.ProtoUDP}.piece(0, true, counting(1200))), gateway.Drop)
	if a.egress.Dropped(gateway.FragmentTimeout) == 0 {
		t.Error("none has timed out")
	}
	f := flow{src: "203.0.113.9", dst: v4.seenPodB, proto: packet.ProtoUDP}
	expectDropSilently(t, a.fromNode(f.piece(0, true, counting(1200))))
	expectDrop(t, a.fromNode(f.piece(600, true, counting(1200))), gateway.FragmentOverlap)
}

func TestFlowsOutliveTheTable(t *testing.T) {
	t.Parallel()
	a := withFlows(t, 16, 16)
	asked := receive(t, slices.Clone(a.fromNode(flow{src: v4.foreign, dst: v4.seenPodB, from: 5555}.udp(nil)).Packet))
	a.SetTable(tableOf(t, configured(t, clusterA, masqueradeAll), mtus))
	r := a.fromTunnel(answering(asked).udp(nil))
	expectVerdict(t, r, gateway.ToNode)
	expect(t, r.Packet, v4.seenPodB, v4.foreign, 63)

	a.SetTable(tableOf(t, configured(t, clusterA, masqueradeAll, func(c *config.Gateway) { c.Overlay.Nodes = c.Overlay.Nodes[1:] }), mtus))
	expectDrop(t, a.fromTunnel(answering(asked).udp(nil)), gateway.NoNode)
}

func TestRFC4787REQ9_RFC5382REQ8_RFC5508REQ7_MasqueradedSourcesReachEachOtherByTheirExternalEndpoints(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, p := range masqueraded[:2] {
			a := withFlows(t, 16, 16)
			one, two := w.foreign, addr(w.foreign).Next().String()
			first := receive(t, slices.Clone(a.fromNode(p.ask(flow{src: one, dst: w.seenPodB, from: 1111})).Packet))
			// The first has to have sent to the gateway's address, or what comes from it is
			// filtered (RFC 4787 REQ-8).
			expectVerdict(t, a.fromNode(p.ask(flow{src: one, dst: w.gateOut, from: 1111, to: 9})), gateway.Drop)
			r := a.fromNode2(p.ask(flow{src: two, dst: w.gateOut, from: 2222, to: port(first.upper)}))
			expectVerdict(t, r, gateway.ToNode)
			if r.Node.Name != "node-1" {
				t.Errorf("%s: to %s", p.name, r.Node.Name)
			}
			v := expect(t, slices.Clone(r.Packet), w.gateOut, one, 63)
			if port(v.upper[2:]) != 1111 || port(v.upper) == 2222 {
				t.Errorf("%s: from port %d to %d", p.name, port(v.upper), port(v.upper[2:]))
			}
			r = a.fromNode(p.answer(v))
			expectVerdict(t, r, gateway.ToNode)
			back := expect(t, slices.Clone(r.Packet), w.gateOut, two, 63)
			if r.Node.Name != "node-2" || port(back.upper[2:]) != 2222 || port(back.upper) != port(first.upper) {
				t.Errorf("%s: answered from %d to %d behind %s", p.name, port(back.upper), port(back.upper[2:]), r.Node.Name)
			}

			// RFC 5508 REQ-7: and errors about that too.
			r = a.fromNode(flow{src: one, dst: w.gateOut}.unreachable(v.bytes))
			expectVerdict(t, r, gateway.ToNode)
			e := expect(t, r.Packet, w.gateOut, two, 63)
			quoted := read(t, e.upper[8:])
			if r.Node.Name != "node-2" || quoted.src != addr(two) || port(quoted.upper) != 2222 || quoted.dst != addr(w.gateOut) || port(quoted.upper[2:]) != port(first.upper) {
				t.Errorf("%s: quotes %v:%d to %v:%d", p.name, quoted.src, port(quoted.upper), quoted.dst, port(quoted.upper[2:]))
			}
		}
	}
}

func TestRFC4787REQ9_RFC5508REQ7_PrefixMapsHairpin(t *testing.T) {
	t.Parallel()
	both := func(c *config.Gateway) {
		c.Overlay.Nodes[1].ExternalAddresses = []netip.Addr{addr("10.70.0.12"), addr("fd00:70::12")}
		c.Overlay.Nodes[1].Addresses = append(c.Overlay.Nodes[1].Addresses[:1:1], addr("fd00:80::12"))
	}
	for _, w := range families {
		a := newA(t, both)
		other := map[bool]string{true: "10.70.0.12", false: "fd00:70::12"}[w == v4]
		f := flow{src: w.node, dst: other}
		r := a.fromNode(f.udp(counting(9)))
		expectVerdict(t, r, gateway.ToNode)
		v := expect(t, slices.Clone(r.Packet), w.nodeOut, w.nodeWithout, 63)
		if r.Node.Name != "node-2" {
			t.Errorf("to %s", r.Node.Name)
		}
		r = a.fromNode2(answering(v).udp(nil))
		expectVerdict(t, r, gateway.ToNode)
		expect(t, r.Packet, other, w.node, 63)

		r = a.fromNode2(flow{src: w.nodeWithout, dst: w.nodeOut}.unreachable(v.bytes))
		expectVerdict(t, r, gateway.ToNode)
		e := expect(t, r.Packet, other, w.node, 63)
		if quoted := read(t, e.upper[8:]); quoted.src != addr(w.node) || quoted.dst != addr(other) {
			t.Errorf("quotes %v to %v", quoted.src, quoted.dst)
		}
	}
}
