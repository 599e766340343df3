package gateway_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// What a kernel tunnel device on the gateway's own machine hands over: inner
// checksums that are not computed, inner TCP that is not segmented, inner UDP
// that is not cut.

func partial(f flow) flow {
	f.partial = true
	return f
}

func TestUnfinishedChecksumsAreCompleted(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, j := range journeys(w) {
			f := partial(flow{src: j.src, dst: j.dst})
			for _, b := range [][]byte{f.tcp(ack, nil, counting(77)), f.tcp(syn, mss(9000), nil), f.udp(counting(78))} {
				r := newA(t).fromNode(b)
				expectVerdict(t, r, gateway.ToTunnel)
				if r.Pieces != nil {
					t.Fatal("in pieces")
				}
				expect(t, r.Packet, j.tunnelSrc, j.tunnelDst, 63) // its checksum is right
			}
		}
	}
}

func TestUnfinishedChecksumsForMappedAddressesAreCompleted(t *testing.T) {
	t.Parallel()
	for _, mapped := range []string{"10.70.1.9", "fd00:70::1:9"} {
		w := v4
		if addr(mapped).Is6() {
			w = v6
		}
		f := partial(flow{src: w.node, dst: mapped})
		for name, b := range map[string][]byte{"TCP": f.tcp(syn, mss(1400), nil), "UDP": f.udp(counting(20)), "long TCP": f.tcp(ack, nil, counting(5000))} {
			a := newA(t, func(c *config.Gateway) {
				c.Mappings = []config.Mapping{{External: addr(mapped), Target: addr(w.foreign)}}
			})
			r := a.fromNode(b)
			if r.Verdict != gateway.ToHost {
				t.Fatalf("%s: verdict %d", name, r.Verdict)
			}
			expect(t, r.Packet, w.node, mapped, 64)
		}
	}
}

func TestAPacketThatJustFitsIsNotCut(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, df := range []bool{false, true} {
			f := flow{src: w.podA, dst: w.seenPodB, df: df}
			a := newA(t)
			opened(t, a, flow{src: w.podA, dst: w.podB})
			r := a.fromNode(partial(f).tcp(ack, nil, counting(tunnelMTU-headers(w))))
			expectVerdict(t, r, gateway.ToTunnel)
			if r.Pieces != nil || len(r.Packet) != tunnelMTU {
				t.Errorf("out: %d bytes, pieces %v", len(r.Packet), r.Pieces)
			}
			r = newA(t).fromTunnel(sized(overlayMTU, flow{src: w.podB, dst: w.podA, df: df}))
			expectVerdict(t, r, gateway.ToNode)
			if r.Pieces != nil || len(r.Packet) != overlayMTU {
				t.Errorf("in: %d bytes, pieces %v", len(r.Packet), r.Pieces)
			}
		}
	}
}

// timestamps is the TCP option that nearly every segment carries, padded.
func timestamps() []byte { return []byte{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2} }

// stream puts TCP segments together and checks that they are one flow in order.
func stream(t *testing.T, segments [][]byte) (payload []byte) {
	t.Helper()
	for i, b := range segments {
		v := receive(t, b)
		header := int(v.upper[12]>>4) * 4
		if seq := binary.BigEndian.Uint32(v.upper[4:]); int(seq) != 0x1000+len(payload) {
			t.Fatalf("segment %d: sequence number %#x, want %#x", i, seq, 0x1000+len(payload))
		}
		payload = append(payload, v.upper[header:]...)
	}
	return payload
}

func TestSuperPacketsAreSegmentedToTheTunnelsMTU(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, j := range journeys(w) {
			for _, n := range []int{tunnelMTU, 4000, 40_000, packet.MaxLen - 40 - 32} {
				sent := counting(n)
				a := newA(t)
				opened(t, a, flow{src: j.tunnelSrc, dst: j.tunnelDst})
				r := a.fromNode(partial(flow{src: j.src, dst: j.dst, df: true}).tcp(ack|psh, timestamps(), sent))
				expectVerdict(t, r, gateway.ToTunnel)
				all := pieces(t, r, tunnelMTU)
				for _, b := range all {
					expect(t, b, j.tunnelSrc, j.tunnelDst, 63)
				}
				if got := stream(t, all); !bytes.Equal(got, sent) {
					t.Fatalf("%s: %d bytes of payload became %d others", j.name, n, len(got))
				}
				if full := len(all[0]); full != tunnelMTU {
					t.Errorf("first segment has %d bytes, want %d", full, tunnelMTU)
				}
			}
		}
	}
}

// opened passes the SYN-ACK of a connection, whose far end accepts segments of any size. f is the flow in the tunnel.
func opened(t *testing.T, a *side, f flow) {
	t.Helper()
	expectVerdict(t, a.fromTunnel(f.back().tcp(syn|ack, mss(9000), nil)), gateway.ToNode)
}

// everyPath is the packet size in bytes that every IPv6 path carries.
const everyPath = 1280

// firstSegment is the length of the first piece of a super-packet on a flow.
func firstSegment(t *testing.T, a *side, f flow) int {
	t.Helper()
	r := a.fromNode(partial(f).tcp(ack, timestamps(), counting(5000)))
	expectVerdict(t, r, gateway.ToTunnel)
	all := pieces(t, r, tunnelMTU)
	if got := stream(t, all); len(got) != 5000 {
		t.Fatalf("%d bytes, want 5000", len(got))
	}
	return len(all[0])
}

func headers(w who) int {
	if addr(w.podA).Is4() {
		return 20 + 20
	}
	return 40 + 20
}

func TestRFC6691_SegmentsKeepToTheMSSOfTheFarEnd(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, j := range journeys(w) {
			a := newA(t)
			f := flow{src: j.src, dst: j.dst}
			far := flow{src: j.tunnelSrc, dst: j.tunnelDst}.back()
			if n := firstSegment(t, a, f); n != everyPath {
				t.Errorf("%s: %d bytes before the handshake, want %d", j.name, n, everyPath)
			}
			a.fromTunnel(far.tcp(syn|ack, mss(1000), nil))
			if n := firstSegment(t, a, f); n != 1000+headers(w) {
				t.Errorf("%s: %d bytes after MSS 1000, want %d", j.name, n, 1000+headers(w))
			}
			other := f
			other.from = 12346
			if n := firstSegment(t, a, other); n != everyPath {
				t.Errorf("%s: another flow is cut to %d", j.name, n)
			}
			a.fromTunnel(far.tcp(syn|ack, mss(9000), nil))
			if n := firstSegment(t, a, f); n != tunnelMTU {
				t.Errorf("%s: %d bytes after MSS 9000, want %d", j.name, n, tunnelMTU)
			}
		}
	}
}

func TestRFC1191_SegmentsKeepToWhatATooBigErrorAsksFor(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, j := range journeys(w) {
			a := newA(t)
			f := flow{src: j.src, dst: j.dst}
			inTunnel := flow{src: j.tunnelSrc, dst: j.tunnelDst}
			router := flow{src: w.nodeOut, dst: j.tunnelSrc}
			about := inTunnel.tcp(ack, nil, counting(1300))
			opened(t, a, inTunnel)
			expectVerdict(t, a.fromTunnel(router.tooBig(1300, about[:headers(w)])), gateway.ToNode)
			if n := firstSegment(t, a, f); n != 1300 {
				t.Errorf("%s: %d bytes, want 1300", j.name, n)
			}
			// A quote of only 8 bytes of TCP still has the ports.
			expectVerdict(t, a.fromTunnel(router.tooBig(1290, about[:headers(w)-12])), gateway.ToNode)
			if n := firstSegment(t, a, f); n != 1290 {
				t.Errorf("%s: %d bytes, want 1290", j.name, n)
			}
		}
	}
}

func TestT11_AnErrorCannotMakeDust(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		least := 552 // no sender on Linux goes below
		if w == v6 {
			least = 1280 // RFC 8201 section 4
		}
		for _, mtu := range []int{0, 1, 67, 552, 1279} {
			a := newA(t)
			about := flow{src: w.podA, dst: w.podB}.tcp(ack, nil, counting(1300))
			a.fromTunnel(flow{src: w.podB, dst: w.podA}.tooBig(mtu, about[:headers(w)]))
			if n := firstSegment(t, a, flow{src: w.podA, dst: w.seenPodB}); n < least {
				t.Errorf("IPv%d, MTU %d: cut to %d bytes", about[0]>>4, mtu, n)
			}
		}
		a := newA(t)
		a.fromTunnel(flow{src: w.podA, dst: w.podB}.back().tcp(syn|ack, mss(1), nil))
		if n := firstSegment(t, a, flow{src: w.podA, dst: w.seenPodB}); n < 128 {
			t.Errorf("MSS 1: cut to %d bytes", n)
		}
	}
}

func TestRFC5927_OtherErrorsAndErrorsAboutOtherFlowsTeachNothing(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		opened(t, a, flow{src: w.podA, dst: w.podB})
		about := flow{src: w.podA, dst: w.foreign}.tcp(ack, nil, counting(1300))
		expectDrop(t, a.fromTunnel(flow{src: w.podB, dst: w.podA}.tooBig(1300, about[:headers(w)])), gateway.ICMPUnrelated)
		about = flow{src: w.podA, dst: w.podB}.tcp(ack, nil, counting(1300))
		expectVerdict(t, a.fromTunnel(flow{src: w.podB, dst: w.podA}.unreachable(about[:headers(w)])), gateway.ToNode)
		damaged := flow{src: w.podB, dst: w.podA}.tooBig(1300, about[:headers(w)])
		damaged[len(damaged)-1] ^= 1
		expectDrop(t, a.fromTunnel(damaged), gateway.ICMPChecksum)
		if n := firstSegment(t, a, flow{src: w.podA, dst: w.seenPodB}); n != tunnelMTU {
			t.Errorf("cut to %d", n)
		}
	}
}

// One packet for the kernel, many for the network: UDP_SEGMENT.
func TestSuperDatagramsAreCutWhereTheirSenderMeant(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, j := range journeys(w) {
			const size = 1200
			sent := counting(5*size + 17)
			f := partial(flow{src: j.src, dst: j.dst})
			a := newA(t)
			b := node1A.frame(f.udp(sent))
			r := a.egress.SuperFrame(b, node1A.outer(), size, start)
			expectVerdict(t, r, gateway.ToTunnel)
			var got []byte
			for i, b := range pieces(t, r, tunnelMTU) {
				v := expect(t, b, j.tunnelSrc, j.tunnelDst, 63)
				if n := int(binary.BigEndian.Uint16(v.upper[4:])); n != len(v.upper) || n != 8+min(size, len(sent)-len(got)) {
					t.Fatalf("datagram %d: %d bytes, %d by its header", i, len(v.upper), n)
				}
				got = append(got, v.upper[8:]...)
			}
			if !bytes.Equal(got, sent) {
				t.Errorf("%s: %d bytes became %d others", j.name, len(sent), len(got))
			}
		}
	}
}

// One that stays in the cluster: to a mapped address, and to an external address of the cluster.
func TestSuperDatagramsThatStayInTheClusterAreCutToo(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		mapped := "10.70.1.9"
		if w == v6 {
			mapped = "fd00:70::1:9"
		}
		for to, verdict := range map[string]gateway.Verdict{mapped: gateway.ToHost, w.nodeOut: gateway.ToNode} {
			a := withFlows(t, 100, 10, func(c *config.Gateway) {
				c.Mappings = []config.Mapping{{External: addr(mapped), Target: addr(w.foreign)}}
			})
			const size = 1200
			sent := counting(3*size + 17)
			r := a.egress.SuperFrame(node2A.frame(partial(flow{src: w.otherPodA, dst: to, df: true}).udp(sent)), node2A.outer(), size, start)
			expectVerdict(t, r, verdict)
			var got []byte
			for i, b := range pieces(t, r, overlayMTU) {
				v := receive(t, b) // its checksum is right
				if n := int(binary.BigEndian.Uint16(v.upper[4:])); n != len(v.upper) || n != 8+min(size, len(sent)-len(got)) {
					t.Fatalf("datagram %d to %s: %d bytes, %d by its header", i, to, len(v.upper), n)
				}
				got = append(got, v.upper[8:]...)
			}
			if !bytes.Equal(got, sent) {
				t.Errorf("to %s: %d bytes became %d others", to, len(sent), len(got))
			}
		}
	}
}

func TestSuperDatagramsWhosePiecesDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		b := node1A.frame(partial(flow{src: w.podA, dst: w.seenPodB}).udp(counting(3 * tunnelMTU)))
		r := a.egress.SuperFrame(b, node1A.outer(), tunnelMTU, start)
		expectDrop(t, r, gateway.TooBig)
		if _, mtu := expectError(t, r.Answer, w.gateway, w.podA, 64, tooBig); mtu != tunnelMTU {
			t.Errorf("MTU %d, want %d", mtu, tunnelMTU)
		}
	}
}

func TestASuperFrameOfSomethingElseIsAnOrdinaryFrame(t *testing.T) {
	t.Parallel()
	a := newA(t)
	b := node1A.frame(flow{src: v4.podA, dst: v4.seenPodB}.tcp(ack, nil, counting(700)))
	r := a.egress.SuperFrame(b, node1A.outer(), 500, start)
	expectVerdict(t, r, gateway.ToTunnel)
	if r.Pieces != nil {
		t.Error("TCP was cut at a size for UDP")
	}
}

func TestSpansFrameDistinguishesOneFrameFromSeveral(t *testing.T) {
	t.Parallel()
	for _, w := range []wire{node1A, node2A} {
		for _, f := range []flow{{src: v4.podA, dst: v4.seenPodB}, {src: v6.podA, dst: v6.seenPodB}} {
			one := w.frame(f.udp(counting(2400)))
			two := slices.Concat(w.frame(f.udp(counting(1200))), w.frame(f.udp(counting(1200))))
			if !gateway.SpansFrame(one, w.encapsulation) || !gateway.SpansFrame(w.frame(f.raw(253, nil)), w.encapsulation) {
				t.Error("one frame is not recognized as one")
			}
			if gateway.SpansFrame(two, w.encapsulation) {
				t.Error("two frames are recognized as one")
			}
			for n := range 64 {
				if gateway.SpansFrame(one[:n], w.encapsulation) {
					t.Errorf("the first %d bytes are recognized as a whole frame", n)
				}
			}
		}
		if gateway.SpansFrame(arpRequest(w, v4.node, v4.gateway), w.encapsulation) {
			t.Error("ARP is recognized as an IP packet")
		}
	}
}
