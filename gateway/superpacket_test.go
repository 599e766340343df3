package gateway_test

import (
	"bytes"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// A super-packet is one packet of several TCP segments whose size the gateway does not see. What it sends instead may
// be no longer than the segments that the sender meant, which the far end and the path accept.

// superSender is a host of cluster A that sends super-packets.
type superSender struct {
	name  string
	send  func(*side, []byte) gateway.Result
	out   flow // from the host, as it knows the addresses
	inner flow // the same in the tunnel
}

func superSenders(w who) []superSender {
	return []superSender{
		{"pod, Geneve over IPv4", (*side).fromNode, flow{src: w.podA, dst: w.seenPodB, df: true}, flow{src: w.podA, dst: w.podB}},
		{"pod, VXLAN over IPv6", (*side).fromNode2, flow{src: w.otherPodA, dst: w.seenPodB, df: true}, flow{src: w.otherPodA, dst: w.podB}},
		{"node", (*side).fromNode, flow{src: w.node, dst: w.seenPodB, df: true}, flow{src: w.nodeOut, dst: w.podB}},
	}
}

// expectSegments sends a super-packet with some bytes of payload, and returns the length of its longest segment.
func (s superSender) expectSegments(t *testing.T, a *side, payload int) (longest int) {
	t.Helper()
	sent := counting(payload)
	r := s.send(a, partial(s.out).tcp(ack|psh, timestamps(), sent))
	expectVerdict(t, r, gateway.ToTunnel)
	all := pieces(t, r, tunnelMTU)
	for _, b := range all {
		longest = max(longest, len(b))
	}
	if got := stream(t, all); !bytes.Equal(got, sent) {
		t.Fatalf("%s: %d bytes of payload became %d others", s.name, payload, len(got))
	}
	return longest
}

func TestRFC9293_SegmentsKeepToTheMSSWhateverTheLengthOfTheSuperPacket(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, s := range superSenders(w) {
			for _, farMSS := range []int{600, 1000, tunnelMTU - headers(w)} {
				a := newA(t)
				expectVerdict(t, a.fromTunnel(s.inner.back().tcp(syn|ack, mss(uint16(farMSS)), nil)), gateway.ToNode)
				for _, payload := range []int{farMSS - 11, farMSS, farMSS + 100, tunnelMTU - headers(w) - 12, 2600, 40_000} {
					if n := s.expectSegments(t, a, payload); n > farMSS+headers(w) {
						t.Errorf("%s: a super-packet with %d bytes of payload has a segment of %d bytes, the far end accepts %d", s.name, payload, n, farMSS+headers(w))
					}
				}
			}
		}
	}
}

func TestRFC9293_AFarEndThatAnnouncesNoMSSGetsTheDefault(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		want := 536
		if w == v6 {
			want = 1220
		}
		for _, flags := range []byte{syn, syn | ack} {
			for _, s := range superSenders(w) {
				a := newA(t)
				expectVerdict(t, a.fromTunnel(s.inner.back().tcp(flags, nil, nil)), gateway.ToNode)
				if n := s.expectSegments(t, a, 1300); n > want+headers(w) {
					t.Errorf("%s: a segment of %d bytes, want at most %d", s.name, n, want+headers(w))
				}
			}
		}
	}
}

func TestRFC1191_SegmentsKeepToTheMTUOfAnErrorWhateverTheLengthOfTheSuperPacket(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, s := range superSenders(w) {
			const mtu = 1300
			a := newA(t)
			opened(t, a, s.inner)
			about := s.inner.tcp(ack, nil, counting(1300))
			router := flow{src: w.nodeOut, dst: s.inner.src}
			expectVerdict(t, a.fromTunnel(router.tooBig(mtu, about[:headers(w)])), gateway.ToNode)
			for _, payload := range []int{mtu - headers(w) - 12 + 1, tunnelMTU - headers(w) - 12, 5000} {
				if n := s.expectSegments(t, a, payload); n > mtu {
					t.Errorf("%s: a segment of %d bytes, the path carries %d", s.name, n, mtu)
				}
			}
		}
	}
}

// The MSS of the far end stays the limit when an error asks for more, and one that any remote host can forge allows
// nothing that was not known.
func TestRFC5927_AnErrorNeverAllowsLongerSegments(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, s := range superSenders(w) {
			for _, mtu := range []int{everyPath + 1, tunnelMTU, 65535} {
				about := s.inner.tcp(ack, nil, counting(1300))
				tooBig := flow{src: w.nodeOut, dst: s.inner.src}.tooBig(mtu, about[:headers(w)])
				a := newA(t)
				expectVerdict(t, a.fromTunnel(bytes.Clone(tooBig)), gateway.ToNode)
				if n := s.expectSegments(t, a, 5000); n > everyPath {
					t.Errorf("%s: %d bytes after an error with MTU %d, and nothing else is known", s.name, n, mtu)
				}
				a.fromTunnel(s.inner.back().tcp(syn|ack, mss(600), nil))
				a.fromTunnel(bytes.Clone(tooBig))
				if n := s.expectSegments(t, a, 5000); n > 600+headers(w) {
					t.Errorf("%s: %d bytes after an error with MTU %d, MSS 600", s.name, n, mtu)
				}
			}
		}
	}
}

// With several gateways, the reply to a SYN, and errors, can pass through another one (docs/explanation/packet-walk.md).
func TestWhatIsNotKnownIsSegmentedToASizeThatEveryPathCarries(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, s := range superSenders(w) {
			synAck := s.inner.back().tcp(syn|ack, mss(uint16(everyPath-headers(w))), nil)
			about := s.inner.tcp(ack, nil, counting(1300))
			tooBig := flow{src: w.nodeOut, dst: s.inner.src}.tooBig(everyPath, about[:headers(w)])
			for name, cutting := range map[string]func(*testing.T) *side{
				"handshake and error took another gateway": func(t *testing.T) *side {
					other := newA(t)
					expectVerdict(t, other.fromTunnel(bytes.Clone(synAck)), gateway.ToNode)
					expectVerdict(t, other.fromTunnel(bytes.Clone(tooBig)), gateway.ToNode)
					return newA(t)
				},
				"the gateway was restarted": func(t *testing.T) *side {
					a := newA(t)
					expectVerdict(t, a.fromTunnel(bytes.Clone(synAck)), gateway.ToNode)
					return sideOf(a.Table(), node1A)
				},
				"other flows took its place": func(t *testing.T) *side {
					a := newA(t)
					expectVerdict(t, a.fromTunnel(bytes.Clone(synAck)), gateway.ToNode)
					for port := range uint16(60_000) {
						f := s.inner
						f.from = 1 + port
						if f.from != 12345 {
							opened(t, a, f)
						}
					}
					return a
				},
			} {
				a := cutting(t)
				for _, payload := range []int{everyPath - headers(w) - 12 + 1, tunnelMTU - headers(w) - 12, 5 * 1200} {
					if n := s.expectSegments(t, a, payload); n > everyPath {
						t.Errorf("%s, %s: a super-packet with %d bytes of payload has a segment of %d bytes, want at most %d", s.name, name, payload, n, everyPath)
					}
				}
			}
		}
	}
}

// A remote pod can choose ports with which FlowHash returns the same for a flow of its own and another one.
func TestT11_ARemotePodCannotChooseTheSegmentsOfAnotherFlow(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		s := superSenders(w)[0]
		its, others := collision(t, s.out)
		a := newA(t)
		s.inner.from, s.inner.to = its.from, its.to
		expectVerdict(t, a.fromTunnel(s.inner.back().tcp(syn|ack, mss(600), nil)), gateway.ToNode)
		s.out = others
		if n := s.expectSegments(t, a, 5000); n != everyPath {
			t.Errorf("a segment of %d bytes after a SYN of a flow with the same FlowHash, want %d", n, everyPath)
		}
	}
}

// collision returns two flows between the hosts of f with the same FlowHash.
func collision(t *testing.T, f flow) (a, b flow) {
	t.Helper()
	seen := make(map[uint32]flow)
	for f.from = 1; f.from < 1000; f.from++ {
		for f.to = 1; f.to < 1000; f.to++ {
			packed := f.tcp(ack, nil, nil)
			var ip packet.IP
			packet.Parse(packed, &ip)
			hash := packet.FlowHash(packed, &ip)
			if other, ok := seen[hash]; ok {
				return other, f
			}
			seen[hash] = f
		}
	}
	t.Fatal("a million flows have different hashes")
	return f, f
}

// An MSS below 1280 bytes applies too.
func TestAGatewayKeepsToASmallMSS(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, s := range superSenders(w) {
			a := newA(t)
			expectVerdict(t, a.fromTunnel(s.inner.back().tcp(syn|ack, mss(600), nil)), gateway.ToNode)
			if n := s.expectSegments(t, a, 1100); n > 600+headers(w) {
				t.Errorf("%s: a segment of %d bytes, the far end accepts %d", s.name, n, 600+headers(w))
			}
		}
	}
}

func TestPacketsOfOneSegmentAreLeftWhole(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		f := flow{src: w.podA, dst: w.seenPodB, df: true}
		full := tunnelMTU - headers(w)
		for name, b := range map[string][]byte{
			"TCP with a finished checksum":              f.tcp(ack, nil, counting(full)),
			"SYN with data":                             partial(f).tcp(syn, nil, counting(full)),
			"RST with data":                             partial(f).tcp(0x04, nil, counting(full)),
			"UDP with an unfinished checksum":           partial(f).udp(counting(full + 12)),
			"TCP that every path carries":               partial(f).tcp(ack, nil, counting(everyPath-headers(w))),
			"another protocol, of which nothing is cut": f.raw(253, counting(full+20)),
		} {
			size := len(b)
			r := newA(t).fromNode(b)
			expectVerdict(t, r, gateway.ToTunnel)
			if r.Pieces != nil || len(r.Packet) != size {
				t.Errorf("%s of %d bytes: %d bytes, in pieces: %t", name, size, len(r.Packet), r.Pieces != nil)
			}
			receive(t, r.Packet)
		}
		// The longest segment that the far end announced to accept.
		a := newA(t)
		expectVerdict(t, a.fromTunnel(flow{src: w.podA, dst: w.podB}.back().tcp(syn|ack, mss(uint16(full-20)), nil)), gateway.ToNode)
		if r := a.fromNode(partial(f).tcp(ack, timestamps(), counting(full-20-12))); r.Verdict != gateway.ToTunnel || r.Pieces != nil {
			t.Errorf("a full segment: verdict %d, in pieces: %t", r.Verdict, r.Pieces != nil)
		}
	}
}

func TestMasqueradedSuperPacketsKeepToTheMSS(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 100, 10)
		f := flow{src: w.foreign, dst: w.seenPodB, df: true}
		hello := a.fromNode(partial(f).tcp(syn, mss(1460), nil))
		expectVerdict(t, hello, gateway.ToTunnel)
		out := receive(t, hello.Packet)
		reply := flow{src: w.podB, dst: out.src.String(), from: 443, to: uint16(out.upper[0])<<8 | uint16(out.upper[1])}
		expectVerdict(t, a.fromTunnel(reply.tcp(syn|ack, mss(700), nil)), gateway.ToNode)
		for _, payload := range []int{1200, 5000} {
			r := a.fromNode(partial(f).tcp(ack, nil, counting(payload)))
			expectVerdict(t, r, gateway.ToTunnel)
			for _, b := range pieces(t, r, tunnelMTU) {
				if receive(t, b); len(b) > 700+headers(w) {
					t.Errorf("%d bytes of payload: a segment of %d bytes, the far end accepts %d", payload, len(b), 700+headers(w))
				}
			}
		}
	}
}

func TestHairpinnedSuperPacketsAreSegmented(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := withFlows(t, 100, 10)
		for _, payload := range []int{100, overlayMTU - headers(w), 5000} {
			sent := counting(payload)
			r := a.fromNode2(partial(flow{src: w.otherPodA, dst: w.nodeOut, df: true}).tcp(ack|psh, nil, sent))
			expectVerdict(t, r, gateway.ToNode)
			all := pieces(t, r, everyPath)
			for _, b := range all {
				if v := receive(t, b); v.dst != addr(w.node) {
					t.Fatalf("to %v", v.dst)
				}
			}
			if got := stream(t, all); !bytes.Equal(got, sent) {
				t.Errorf("%d bytes of payload became %d others", payload, len(got))
			}
		}
		r := a.fromNode2(partial(flow{src: w.otherPodA, dst: w.nodeOut}).udp(counting(200)))
		expectVerdict(t, r, gateway.ToNode)
		receive(t, r.Packet)
	}
}

// ace returns the counter ACE of AccECN, or AE, CWR and ECE of classic ECN, of each piece of a super-packet.
func ace(t *testing.T, a *side, f flow, value byte) (all []byte) {
	t.Helper()
	b := partial(f).tcp(ack|value<<6, nil, counting(3000))
	b[len(b)-3000-20+12] |= value >> 2
	r := a.fromNode(b)
	expectVerdict(t, r, gateway.ToTunnel)
	for _, p := range pieces(t, r, tunnelMTU) {
		v := receive(t, p)
		all = append(all, v.upper[12]&1<<2|v.upper[13]>>6)
	}
	return all
}

// handshake is a SYN or SYN-ACK of the far end with flags of ECN: AE, CWR, ECE as a number.
func handshake(f flow, flags, ecn byte) []byte {
	b := f.back().tcp(flags|ecn<<6, mss(1460), nil)
	at := len(b) - 24
	b[at+12] |= ecn >> 2
	if ecn&4 != 0 { // AE changes the checksum
		sum := uint32(b[at+16])<<8 | uint32(b[at+17])
		sum += 0xffff - 0x0100
		sum = sum>>16 + sum&0xffff
		b[at+16], b[at+17] = byte(sum>>8), byte(sum)
	}
	return b
}

func TestRFC9768_ACEOfASuperPacketIsCopied(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		f, inner := flow{src: w.podA, dst: w.seenPodB, df: true}, flow{src: w.podA, dst: w.podB}
		for name, hello := range map[string][]byte{
			"no handshake seen":              nil,
			"AccECN SYN of the far end":      handshake(inner, syn, 7),
			"AccECN SYN-ACK, ECT(0) arrived": handshake(inner, syn|ack, 4),
			"AccECN SYN-ACK, ECT(1) arrived": handshake(inner, syn|ack, 3),
			"AccECN SYN-ACK, CE arrived":     handshake(inner, syn|ack, 6),
			"AccECN SYN-ACK, Not-ECT":        handshake(inner, syn|ack, 2),
		} {
			a := newA(t)
			if hello != nil {
				r := a.fromTunnel(hello)
				expectVerdict(t, r, gateway.ToNode)
				receive(t, r.Packet)
			}
			for value := range byte(8) {
				for _, got := range ace(t, a, f, value) {
					if got != value {
						t.Errorf("%s, IPv%d: ACE %d became %d", name, version(w), value, got)
					}
				}
			}
		}
	}
}

func version(w who) int {
	if addr(w.podA).Is4() {
		return 4
	}
	return 6
}

func TestRFC3168_CWROfASuperPacketIsOnTheFirstSegmentOnly(t *testing.T) {
	t.Parallel()
	const cwr, ece = 2, 1
	for _, w := range families {
		f, inner := flow{src: w.podA, dst: w.seenPodB, df: true}, flow{src: w.podA, dst: w.podB}
		for name, hello := range map[string][]byte{
			"SYN of the far end":     handshake(inner, syn, cwr|ece),
			"SYN-ACK of the far end": handshake(inner, syn|ack, ece),
		} {
			a := newA(t)
			expectVerdict(t, a.fromTunnel(hello), gateway.ToNode)
			// An error about the flow does not change how it uses ECN.
			about := inner.tcp(ack, nil, counting(1300))
			a.fromTunnel(flow{src: w.nodeOut, dst: w.podA}.tooBig(1300, about[:headers(w)]))
			for value, want := range map[byte][]byte{cwr: {cwr, 0, 0}, cwr | ece: {cwr | ece, ece, ece}, ece: {ece, ece, ece}, 0: {0, 0, 0}} {
				if got := ace(t, a, f, value); !bytes.Equal(got, want) {
					t.Errorf("%s: CWR and ECE %02b became %v, want %v", name, value, got, want)
				}
			}
		}
	}
}

func TestSegmentsAreNoLongerThanATunnelBelow1280(t *testing.T) {
	t.Parallel()
	const mtu = 1000
	s := sideOf(tableOf(t, configured(t, clusterA), gateway.MTUs{Overlay: overlayMTU, Tunnel: mtu}), node1A)
	r := s.fromNode(partial(flow{src: v4.podA, dst: v4.seenPodB, df: true}).tcp(ack, nil, counting(packet.MaxLen-40)))
	expectVerdict(t, r, gateway.ToTunnel)
	pieces(t, r, mtu)
}
