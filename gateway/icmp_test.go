package gateway_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// expectRefusal checks an error that gateway A gives to node-1 about a packet
// it sent: from A's internal address, quoting the packet as it was.
func expectRefusal(t *testing.T, a *side, w who, sent []byte, m icmpMeaning) (mtu int) {
	t.Helper()
	as := bytes.Clone(sent)
	r := a.fromNode(sent)
	if r.Answer == nil {
		t.Fatalf("not answered: verdict %d, reason %q", r.Verdict, r.Reason)
	}
	if r.Node == nil || r.Node.Name != "node-1" {
		t.Fatalf("answered to node %+v", r.Node)
	}
	a.node.unwrap(t, r.AnswerHeader, sent[0]>>4)
	quote, mtu := expectError(t, r.Answer, w.gateway, read(t, as).src.String(), 64, m)
	expectQuote(t, quote, as)
	return mtu
}

// expectRefusalAcross sends a packet of cluster A that gateway B refuses and
// follows the error home: podA must see its own packet in it.
func expectRefusalAcross(t *testing.T, a, b *side, w who, sent []byte, m icmpMeaning) (mtu int) {
	t.Helper()
	sender := read(t, sent).src.String()
	receiver := read(t, sent).dst.String()
	as := bytes.Clone(sent)
	r := a.fromNode(sent)
	expectVerdict(t, r, gateway.ToTunnel)
	inTunnel := bytes.Clone(r.Packet)
	tunnelSender := read(t, inTunnel).src.String()

	r = b.fromTunnel(r.Packet)
	if r.Answer == nil || r.AnswerHeader != nil || r.Node != nil {
		t.Fatalf("not answered into the tunnel: %+v", r)
	}
	quote, _ := expectError(t, r.Answer, w.gateOut, tunnelSender, 64, m)
	expectQuote(t, quote, inTunnel)

	r = a.fromTunnel(bytes.Clone(r.Answer))
	expectVerdict(t, r, gateway.ToNode)
	quote, mtu = expectError(t, r.Packet, w.seenGatewayB, sender, 63, m)
	quoted := expectQuoted(t, quote, sender, receiver)
	expectAsSentButTTL(t, quote, as, quoted)
	return mtu
}

// expectAsSentButTTL checks that a quote is what its sender sent but for the TTL
// that was removed in transit, and that its checksums are still right.
func expectAsSentButTTL(t *testing.T, quote, sent []byte, v view) {
	t.Helper()
	as := bytes.Clone(sent[:len(quote)])
	if as[0]>>4 == 6 {
		as[7] = v.ttl
	} else {
		as[8] = v.ttl
		sealIPv4(as)
	}
	if !bytes.Equal(quote, as) {
		t.Fatalf("quotes\n% x\nwas sent as\n% x", quote, as)
	}
}

func TestI2_TracerouteNamesBothGateways(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, src := range []string{w.podA, w.node} {
			probe := func(ttl uint8) []byte { return flow{src: src, dst: w.seenPodB, ttl: ttl}.udp(counting(24)) }
			a, b := newA(t), newB(t)
			expectRefusal(t, a, w, probe(1), timeExceeded)
			expectRefusalAcross(t, a, b, w, probe(2), timeExceeded)
			r := b.fromTunnel(a.fromNode(probe(3)).Packet)
			expectVerdict(t, r, gateway.ToNode)
			if v := receive(t, r.Packet); v.ttl != 1 {
				t.Errorf("arrives with TTL %d", v.ttl)
			}
		}
	}
}

func TestI2_ATTLOfZeroIsNoneLeft(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, w := range families {
		b := flow{src: w.podA, dst: w.seenPodB}.udp(nil)
		if b[0]>>4 == 6 {
			b[7] = 0
		} else {
			b[8] = 0
			sealIPv4(b)
		}
		expectDrop(t, a.fromNode(b), gateway.TTLExceeded)
	}
}

func TestI6_TooBigAtTheFirstGatewayNamesTheTunnelsMTU(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, src := range []string{w.podA, w.node} {
			f := flow{src: src, dst: w.seenPodB, df: true}
			if mtu := expectRefusal(t, newA(t), w, sized(tunnelMTU+1, f), tooBig); mtu != tunnelMTU {
				t.Errorf("MTU %d, want %d", mtu, tunnelMTU)
			}
			expectVerdict(t, newA(t).fromNode(sized(tunnelMTU, f)), gateway.ToTunnel)
		}
	}
}

func TestI6_TooBigAtTheSecondGatewayNamesItsOverlaysMTU(t *testing.T) {
	t.Parallel()
	const small = 1300 // node leg of B
	b := sideOf(tableOf(t, configured(t, clusterB), gateway.MTUs{Overlay: small, Tunnel: small}), node1B)
	for _, w := range families {
		for _, src := range []string{w.podA, w.node} {
			f := flow{src: src, dst: w.seenPodB, df: true}
			if mtu := expectRefusalAcross(t, newA(t), b, w, sized(small+1, f), tooBig); mtu != small {
				t.Errorf("MTU %d, want %d", mtu, small)
			}
		}
	}
}

func TestRFC5508REQ10_ErrorsOfTheSecondGatewayReachTheSenderWithItsOwnPacket(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, src := range []string{w.podA, w.node} {
			f := flow{src: src, dst: w.absentSeenPod}
			expectRefusalAcross(t, newA(t), newB(t), w, f.tcp(syn, mss(1000), nil), hostUnreachable)
			closed := newB(t, func(c *config.Gateway) { c.Local = config.Local{ExternalPrefixes: c.Local.ExternalPrefixes} })
			f.dst = w.seenPodB
			expectRefusalAcross(t, newA(t), closed, w, f.echo(counting(56)), prohibited)
		}
	}
}

// An error that a host or router of cluster B sends about a packet from A
// arrives as if B had the addresses A knows it by, outside and inside.
func TestRFC5508REQ4_RFC5508REQ5_RFC5382REQ9_PrefixMapsTranslateErrorsOutsideAndInside(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, j := range journeys(w) {
			for _, p := range payloads {
				if p.name == "full size" {
					continue // its error would have to be cut: the truncation test does
				}
				t.Run(fmt.Sprintf("%s/%s/%s", j.name, p.name, w.podA), func(t *testing.T) {
					a, b := newA(t), newB(t)
					sent := p.build(flow{src: j.src, dst: j.dst})
					r := b.fromTunnel(a.fromNode(bytes.Clone(sent)).Packet)
					expectVerdict(t, r, gateway.ToNode)

					// From the receiver itself, and from the node in front of it.
					for _, router := range []struct{ in, seen string }{{j.arrivesDst, j.dst}, {w.node, w.seenNodeB}} {
						about := flow{src: router.in, dst: j.arrivesSrc}.unreachable(r.Packet)
						back := b.fromNode(about)
						expectVerdict(t, back, gateway.ToTunnel)
						expectQuoted(t, receive(t, back.Packet).upper[8:], j.tunnelSrc, j.tunnelDst)
						back = a.fromTunnel(back.Packet)
						expectVerdict(t, back, gateway.ToNode)
						v := expect(t, back.Packet, router.seen, j.src, 62)
						quoted := expectQuoted(t, v.upper[8:], j.src, j.dst)
						expectAsSentButTTL(t, v.upper[8:], sent, quoted)
					}
				})
			}
		}
	}
}

func TestRFC5508REQ4_RFC5508REQ5_PrefixMapsTranslateQuotesCutAnywhere(t *testing.T) {
	t.Parallel()
	a, b := newA(t), newB(t)
	for _, w := range families {
		header := 20
		if w == v6 {
			header = 40
		}
		for _, p := range payloads {
			sent := p.build(flow{src: w.podA, dst: w.seenPodB})
			r := b.fromTunnel(a.fromNode(bytes.Clone(sent)).Packet)
			expectVerdict(t, r, gateway.ToNode)
			whole := bytes.Clone(r.Packet)
			for n := header; n <= min(len(whole), header+64); n++ {
				back := b.fromNode(flow{src: w.podB, dst: w.seenPodA}.unreachable(whole[:n]))
				expectVerdict(t, back, gateway.ToTunnel)
				back = a.fromTunnel(back.Packet)
				expectVerdict(t, back, gateway.ToNode)
				v := expect(t, back.Packet, w.seenPodB, w.podA, 62)
				quoted := expectQuoted(t, v.upper[8:], w.podA, w.seenPodB)
				expectAsSentButTTL(t, v.upper[8:], sent, quoted)
			}
		}
	}
}

func TestRFC5508REQ4_PrefixMapsLeaveQuotedUDPWithoutChecksum(t *testing.T) {
	t.Parallel()
	a := newA(t)
	about := flow{src: v4.podA, dst: v4.podB}.udp(counting(9))
	about[26], about[27] = 0, 0
	r := a.fromTunnel(flow{src: v4.podB, dst: v4.podA}.unreachable(about))
	expectVerdict(t, r, gateway.ToNode)
	quote := expect(t, r.Packet, v4.seenPodB, v4.podA, 63).upper[8:]
	expectQuoted(t, quote, v4.podA, v4.seenPodB)
	if quote[26] != 0 || quote[27] != 0 {
		t.Errorf("quoted checksum became % x", quote[26:28])
	}
}

func TestRFC5508REQ1_PrefixMapsPassQueriesOfEveryKind(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, w := range families {
		kinds := []byte{0, 8, 13, 14, 17, 18, 42}
		if w == v6 {
			kinds = []byte{128, 129, 139, 140, 160}
		}
		for _, kind := range kinds {
			r := a.fromNode(flow{src: w.podA, dst: w.seenPodB}.icmp(kind, kind, 7, counting(20)))
			expectVerdict(t, r, gateway.ToTunnel)
			expect(t, r.Packet, w.podA, w.podB, 63)
		}
	}
}

// notToBeAnswered are packets about which no error may be sent, RFC 1812 section
// 4.3.2.7 and RFC 4443 section 2.4 e; each would earn one by its TTL and size.
func notToBeAnswered(f flow) map[string][]byte {
	f.ttl, f.df = 1, true
	about := f.back().udp(nil)
	cases := map[string][]byte{
		"error":          f.unreachable(about),
		"time exceeded":  f.icmp(11, 3, 0, about),
		"later fragment": f.piece(64, false, counting(30)),
	}
	if addr(f.src).Is4() {
		cases["redirect"] = f.icmp(5, 0, 0, about)
		cases["unknown ICMP type"] = f.icmp(99, 0, 0, nil)
	} else {
		cases["redirect"] = f.icmp(0, 137, 0, about)
		cases["unknown ICMPv6 error"] = f.icmp(0, 99, 0, about)
	}
	return cases
}

func TestI3_NoErrorsAboutErrorsFragmentsAndRedirects(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for name, b := range notToBeAnswered(flow{src: w.podA, dst: w.seenPodB}) {
			if r := newA(t).fromNode(b); r.Verdict != gateway.Drop || r.Answer != nil {
				t.Errorf("%s from a node: verdict %d, answer % x", name, r.Verdict, r.Answer)
			}
		}
		for name, b := range notToBeAnswered(flow{src: w.podB, dst: w.podA}) {
			if r := newA(t).fromTunnel(b); r.Verdict != gateway.Drop || r.Answer != nil {
				t.Errorf("%s from the tunnel: verdict %d, answer % x", name, r.Verdict, r.Answer)
			}
		}
	}
}

// RFC 1812 sections 4.3.2.7 and 5.3.4: a router neither forwards nor answers
// what came as a broadcast or multicast of the link.
func TestI3_LinkBroadcastsAreNeitherForwardedNorAnswered(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, mac := range [][6]byte{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {0x01, 0x00, 0x5e, 0, 0, 5}, {0x33, 0x33, 0, 0, 0, 5}} {
			for _, ttl := range []uint8{1, 64} {
				b := flow{src: w.podA, dst: w.seenPodB, ttl: ttl}.udp(nil)
				etherType := map[uint8]uint16{4: 0x0800, 6: 0x86dd}[b[0]>>4]
				r := newA(t).send(node1A, node1A.ethernet(mac, node1A.mac, etherType, b))
				if r.Verdict != gateway.Drop || r.Answer != nil {
					t.Errorf("to % x with TTL %d: verdict %d, answer % x", mac, ttl, r.Verdict, r.Answer)
				}
			}
		}
	}
}

func TestI5_ErrorsAreNotLongerThanTheyMayBe(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		most := 576
		if w == v6 {
			most = 1280
		}
		for _, n := range []int{60, most - 100, tunnelMTU} {
			r := newA(t).fromNode(sized(n, flow{src: w.podA, dst: w.seenPodB, ttl: 1}))
			if len(r.Answer) == 0 || len(r.Answer) > most {
				t.Errorf("%d bytes about %d, at most %d", len(r.Answer), n, most)
			}
		}
	}
}

// Nothing that an error says ends a flow.
func TestRFC4787REQ12_RFC5382REQ10_PrefixMapsOutliveErrors(t *testing.T) {
	t.Parallel()
	a := newA(t)
	out := flow{src: v4.podA, dst: v4.seenPodB}.tcp(ack, nil, nil)
	before := a.fromNode(slices.Clone(out)).Packet
	want := bytes.Clone(before)
	for _, kind := range []byte{3, 4, 11, 12} {
		a.fromTunnel(flow{src: v4.podB, dst: v4.podA}.icmp(kind, 0, 0, want))
	}
	if got := a.fromNode(slices.Clone(out)).Packet; !bytes.Equal(got, want) {
		t.Errorf("packet after the errors\n% x\nbefore\n% x", got, want)
	}
}

func TestErrorsComeFromAnAddressOfTheRightFamilyOrNotAtAll(t *testing.T) {
	t.Parallel()
	only4 := func(c *config.Gateway) {
		c.Overlay.Addresses = c.Overlay.Addresses[:1]
		c.Overlay.ExternalAddresses = c.Overlay.ExternalAddresses[:1]
	}
	if r := newA(t, only4).fromNode(flow{src: v6.podA, dst: v6.seenPodB, ttl: 1}.udp(nil)); r.Answer != nil {
		t.Errorf("answered without an IPv6 address: % x", r.Answer)
	}
	noOutside := func(c *config.Gateway) { c.Overlay.ExternalAddresses = nil }
	if r := newA(t, noOutside).fromTunnel(flow{src: v4.podB, dst: v4.podA, ttl: 1}.udp(nil)); r.Answer != nil {
		t.Errorf("answered into the tunnel from an internal address: % x", r.Answer)
	}
	outsideOnly := func(c *config.Gateway) { c.Overlay.Addresses = c.Overlay.Addresses[:1] }
	r := newA(t, outsideOnly).fromNode(flow{src: v6.podA, dst: v6.seenPodB, ttl: 1}.udp(nil))
	expectError(t, r.Answer, v6.gateOut, v6.podA, 64, timeExceeded)
}

func TestTranslatedErrorsKeepTheirICMPFields(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		about := flow{src: w.podA, dst: w.podB}.udp(counting(500))
		r := newA(t).fromTunnel(flow{src: w.podB, dst: w.podA}.tooBig(1333, about))
		expectVerdict(t, r, gateway.ToNode)
		_, mtu := expectError(t, r.Packet, w.seenPodB, w.podA, 63, tooBig)
		if mtu != 1333 {
			t.Errorf("MTU became %d", mtu)
		}
	}
}
