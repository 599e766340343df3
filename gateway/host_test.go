package gateway_test

import (
	"bytes"
	"testing"

	"strait.dev/strait/gateway"
)

func TestNodesReachTheGatewayItself(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, src := range []string{w.podA, w.node} {
			for _, own := range []string{w.gateway, w.gateOut} {
				a := newA(t)
				sent := flow{src: src, dst: own, ttl: 1}.echo(counting(56)) // a TTL of 1 reaches the next host
				r := a.fromNode(bytes.Clone(sent))
				expectVerdict(t, r, gateway.ToHost)
				if !bytes.Equal(r.Packet, sent) || r.Version != sent[0]>>4 {
					t.Errorf("%s to %s: version %d, % x", src, own, r.Version, r.Packet)
				}
			}
		}
	}
}

func TestTheGatewayItselfAnswersNodes(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, dst := range []string{w.podA, w.node} {
			a := newA(t)
			sent := flow{src: w.gateway, dst: dst}.icmp(0, 129, 1, counting(56))
			r := a.origin.Packet(bytes.Clone(sent))
			expectVerdict(t, r, gateway.ToNode)
			if !bytes.Equal(r.Packet, sent) || r.Node.Name != "node-1" {
				t.Errorf("to %s: node %s, % x", dst, r.Node.Name, r.Packet)
			}
			a.node.unwrap(t, r.Node.Header(r.Version), r.Version)
		}
	}
}

// A pod of B pings the gateway of A and gets an answer from the address it
// called. The host stack itself knows its internal address alone, as a node does.
func TestTheRemoteReachesTheGatewayItself(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a, b := newA(t), newB(t)
		r := b.fromNode(flow{src: w.podB, dst: w.seenGatewayA}.echo(counting(56)))
		expectVerdict(t, r, gateway.ToTunnel)
		expect(t, r.Packet, w.podB, w.gateOut, 63)
		r = a.fromTunnel(r.Packet)
		expectVerdict(t, r, gateway.ToHost)
		expect(t, r.Packet, w.seenPodB, w.gateway, 63)

		r = a.origin.Packet(flow{src: w.gateway, dst: w.seenPodB}.icmp(0, 129, 1, counting(56)))
		expectVerdict(t, r, gateway.ToTunnel)
		expect(t, r.Packet, w.gateOut, w.podB, 64) // its own packets lose no TTL here
		r = b.fromTunnel(r.Packet)
		expectVerdict(t, r, gateway.ToNode)
		expect(t, r.Packet, w.seenGatewayA, w.podB, 63)
	}
}

func TestTheGatewaysReachEachOther(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a, b := newA(t), newB(t)
		r := a.origin.Packet(flow{src: w.gateway, dst: w.seenGatewayB}.echo(nil))
		expectVerdict(t, r, gateway.ToTunnel)
		r = b.fromTunnel(r.Packet)
		expectVerdict(t, r, gateway.ToHost)
		expect(t, r.Packet, w.seenGatewayA, w.gateway, 64)
	}
}

// The host stack leaves segmentation and checksums of TCP to its interface.
func TestSuperPacketsOfTheGatewayItselfAreSegmented(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for mss, want := range map[int]int{500: 500, 60_000: 0} { // 0: what fits the tunnel
			a, b := newA(t), newB(t)
			payload := counting(4000)
			r := a.origin.SuperPacket(flow{src: w.gateway, dst: w.seenPodB, partial: true}.tcp(ack, nil, payload), mss)
			expectVerdict(t, r, gateway.ToTunnel)
			var got []byte
			memory := make([]byte, tunnelMTU)
			for r.Pieces.Left() {
				segment := memory[:r.Pieces.Next(memory)]
				if want == 0 && r.Pieces.Left() && len(segment) != tunnelMTU {
					t.Errorf("segment of %d bytes, want %d", len(segment), tunnelMTU)
				}
				arrived := b.fromTunnel(bytes.Clone(segment))
				expectVerdict(t, arrived, gateway.ToNode)
				data := expect(t, arrived.Packet, w.seenGatewayA, w.podB, 63).upper[20:]
				if want != 0 && len(data) > want {
					t.Errorf("segment with %d bytes of payload, want %d", len(data), want)
				}
				got = append(got, data...)
			}
			if !bytes.Equal(got, payload) {
				t.Errorf("%d bytes arrive, want the %d sent", len(got), len(payload))
			}
		}
	}
}

// Both of the gateway's addresses would be one in the other cluster: from either
// it receives the reply or an error at once.
func TestTheGatewayNeverSendsAPacketWhoseReplyCannotReachIt(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		r := a.origin.Packet(flow{src: w.gateway, dst: w.seenPodB}.tcp(syn, mss(1000), nil))
		expectVerdict(t, r, gateway.ToTunnel)
		expect(t, r.Packet, w.gateOut, w.podB, 64)
		r = a.fromTunnel(flow{src: w.podB, dst: w.gateOut}.tcp(syn|ack, mss(1000), nil))
		expectVerdict(t, r, gateway.ToHost)
		expect(t, r.Packet, w.seenPodB, w.gateway, 64)

		expectDrop(t, a.origin.Packet(flow{src: w.gateOut, dst: w.seenPodB}.tcp(syn, mss(1000), nil)), gateway.NoExternalAddress)
	}
}

func TestErrorsForAndFromTheGatewayItselfAreTranslated(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		// The remote says that its port is closed.
		about := flow{src: w.gateOut, dst: w.podB}.udp(counting(20))
		r := a.fromTunnel(flow{src: w.podB, dst: w.gateOut}.unreachable(about))
		expectVerdict(t, r, gateway.ToHost)
		expectQuoted(t, expect(t, r.Packet, w.seenPodB, w.gateway, 64).upper[8:], w.gateway, w.seenPodB)

		// The gateway says that its own is.
		about = flow{src: w.seenPodB, dst: w.gateway}.udp(counting(20))
		r = a.origin.Packet(flow{src: w.gateway, dst: w.seenPodB}.unreachable(about))
		expectVerdict(t, r, gateway.ToTunnel)
		expectQuoted(t, expect(t, r.Packet, w.gateOut, w.podB, 64).upper[8:], w.podB, w.gateOut)
	}
}

// Link-local packets are between the two hosts at the ends of a link.
func TestLinkLocalPacketsStayBetweenTheHosts(t *testing.T) {
	t.Parallel()
	a := newA(t)
	sent := flow{src: "fe80::a", dst: "fe80::b"}.udp(counting(20))
	r := a.origin.Packet(bytes.Clone(sent))
	expectVerdict(t, r, gateway.ToTunnel)
	if !bytes.Equal(r.Packet, sent) {
		t.Errorf("sent as % x", r.Packet)
	}
	r = a.fromTunnel(bytes.Clone(sent))
	expectVerdict(t, r, gateway.ToHost)
	if !bytes.Equal(r.Packet, sent) {
		t.Errorf("received as % x", r.Packet)
	}
	for _, b := range [][]byte{
		flow{src: "fe80::b", dst: v6.podA}.udp(nil),
		flow{src: "169.254.0.2", dst: "169.254.0.1"}.udp(nil),
		flow{src: "fe80::b", dst: "ff02::1"}.udp(nil),
	} {
		if r := a.fromTunnel(b); r.Verdict != gateway.Drop || r.Answer != nil {
			t.Errorf("%v: verdict %d", read(t, b).dst, r.Verdict)
		}
	}
	expectDrop(t, a.origin.Packet(flow{src: "169.254.0.1", dst: "169.254.0.2"}.udp(nil)), gateway.Martian)
	if r := a.fromNode(flow{src: "fe80::1", dst: "fe80::2"}.udp(nil)); r.Verdict != gateway.Drop {
		t.Errorf("from a node: verdict %d", r.Verdict)
	}
}
