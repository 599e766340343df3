package gateway_test

import (
	"bytes"
	"fmt"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// A journey is a packet from one host of cluster A to one of cluster B, and the
// reply: the addresses at every stage, as DESIGN's picture has them.
type journey struct {
	name                   string
	src, dst               string // as the sender in A knows them
	tunnelSrc, tunnelDst   string
	arrivesSrc, arrivesDst string // as the receiver in B knows them
}

func journeys(w who) []journey {
	return []journey{
		{"pod to pod", w.podA, w.seenPodB, w.podA, w.podB, w.seenPodA, w.podB},
		{"node to pod", w.node, w.seenPodB, w.nodeOut, w.podB, w.seenNodeA, w.podB},
		{"pod to node", w.podA, w.seenNodeB, w.podA, w.nodeOut, w.seenPodA, w.node},
		{"node to node", w.node, w.seenNodeB, w.nodeOut, w.nodeOut, w.seenNodeA, w.node},
	}
}

// payloads are the upper layers that a journey must carry unharmed.
var payloads = []struct {
	name  string
	build func(flow) []byte
}{
	{"TCP", func(f flow) []byte { return f.tcp(ack|psh, nil, counting(301)) }},
	{"UDP", func(f flow) []byte { return f.udp(counting(99)) }},
	{"UDP empty", func(f flow) []byte { return f.udp(nil) }},
	{"ping", func(f flow) []byte { return f.echo(counting(56)) }},
	{"SCTP", func(f flow) []byte { return f.raw(packet.ProtoSCTP, counting(64)) }},
	{"unknown protocol", func(f flow) []byte { return f.raw(253, counting(3)) }},
	{"no payload", func(f flow) []byte { return f.raw(253, nil) }},
	{"full size", func(f flow) []byte { return f.raw(253, counting(tunnelMTU-40)) }},
	{"first fragment", func(f flow) []byte { return f.piece(0, true, counting(64)) }},
	{"later fragment", func(f flow) []byte { return f.piece(64, false, counting(31)) }},
}

func TestPacketsCrossBothGatewaysAndRepliesComeBack(t *testing.T) {
	t.Parallel()
	a, b := newA(t), newB(t)
	for _, w := range families {
		for _, j := range journeys(w) {
			for _, p := range payloads {
				t.Run(fmt.Sprintf("%s/%s/%s", j.name, p.name, w.podA), func(t *testing.T) {
					there := flow{src: j.src, dst: j.dst}
					expectJourney(t, a, b, p.build(there), j)
					reply := flow{src: j.arrivesDst, dst: j.arrivesSrc}
					expectJourney(t, b, a, p.build(reply), journey{
						tunnelSrc: j.tunnelDst, tunnelDst: j.tunnelSrc,
						arrivesSrc: j.dst, arrivesDst: j.src,
					})
				})
			}
		}
	}
}

// expectJourney sends a packet from near's node to far's node.
func expectJourney(t *testing.T, near, far *side, sent []byte, j journey) {
	t.Helper()
	payload := bytes.Clone(read(t, sent).upper)

	r := near.fromNode(sent)
	expectVerdict(t, r, gateway.ToTunnel)
	v := expect(t, r.Packet, j.tunnelSrc, j.tunnelDst, 63)
	if r.Pieces != nil || r.Answer != nil || r.Version != sent[0]>>4 {
		t.Fatalf("result %+v", r)
	}
	if !samePayload(v, payload) {
		t.Fatal("payload changed on egress")
	}

	r = far.fromTunnel(r.Packet)
	expectVerdict(t, r, gateway.ToNode)
	v = expect(t, r.Packet, j.arrivesSrc, j.arrivesDst, 62)
	if r.Pieces != nil || r.Answer != nil || r.Version != sent[0]>>4 {
		t.Fatalf("result %+v", r)
	}
	if !samePayload(v, payload) {
		t.Fatal("payload changed on ingress")
	}
	if r.Node.Underlay != far.node.underlay {
		t.Fatalf("goes to %v, want %v", r.Node.Underlay, far.node.underlay)
	}
	far.node.unwrap(t, r.Node.Header(r.Version), r.Version)
}

// samePayload compares all but the checksum, which receive has judged.
func samePayload(v view, payload []byte) bool {
	got := bytes.Clone(v.upper)
	if v.offset == 0 && !v.more {
		switch v.proto {
		case packet.ProtoTCP:
			copy(got[16:18], payload[16:])
		case packet.ProtoUDP:
			copy(got[6:8], payload[6:])
		case packet.ProtoICMPv6:
			copy(got[2:4], payload[2:])
		}
	}
	return bytes.Equal(got, payload)
}

// The numbers of DESIGN section 1, written out once.
func TestTheExampleOfTheDesign(t *testing.T) {
	t.Parallel()
	a, b := newA(t), newB(t)
	r := a.fromNode(flow{src: "10.0.1.5", dst: "10.71.2.9"}.udp([]byte("hello")))
	expect(t, r.Packet, "10.0.1.5", "10.0.2.9", 63)
	r = b.fromTunnel(r.Packet)
	expect(t, r.Packet, "10.72.1.5", "10.0.2.9", 62)
	r = b.fromNode(flow{src: "10.0.2.9", dst: "10.72.1.5"}.udp([]byte("world")))
	expect(t, r.Packet, "10.0.2.9", "10.0.1.5", 63)
	r = a.fromTunnel(r.Packet)
	expect(t, r.Packet, "10.71.2.9", "10.0.1.5", 62)
}

func TestNodesSpeakGeneveAndVXLANAtOnce(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, w := range families {
		f := flow{src: w.otherPodA, dst: w.seenPodB}
		r := a.send(node2A, node2A.frame(f.udp(counting(20))))
		expectVerdict(t, r, gateway.ToTunnel)
		expect(t, r.Packet, w.otherPodA, w.podB, 63)

		r = a.fromTunnel(flow{src: w.podB, dst: w.otherPodA}.udp(counting(20)))
		expectVerdict(t, r, gateway.ToNode)
		expect(t, r.Packet, w.seenPodB, w.otherPodA, 63)
		if r.Node.Name != "node-2" || r.Node.Encapsulation != gateway.VXLAN {
			t.Fatalf("goes to %+v", r.Node)
		}
		node2A.unwrap(t, r.Node.Header(r.Version), r.Version)
	}
}

func TestTheLongestPrefixSaysWhereAPodIs(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, w := range []struct{ src, moved string }{{v4.podB, "10.0.1.77"}, {v6.podB, "fd00:10:0:1::77"}} {
		r := a.fromTunnel(flow{src: w.src, dst: w.moved}.udp(nil))
		expectVerdict(t, r, gateway.ToNode)
		if r.Node.Name != "node-2" {
			t.Errorf("%s goes to %s", w.moved, r.Node.Name)
		}
		seen := map[bool]string{true: v4.seenPodB, false: v6.seenPodB}[addr(w.src).Is4()]
		spoofed := a.fromNode(flow{src: w.moved, dst: seen}.udp(nil))
		expectDrop(t, spoofed, gateway.SpoofedSource)
	}
}

func TestG4_G6_UnknownOptionsAndReservedBitsAreIgnored(t *testing.T) {
	t.Parallel()
	a := newA(t)
	inner := node1A.frame(flow{src: v4.podA, dst: v4.seenPodB}.udp(nil))[8:]
	for name, header := range map[string][]byte{
		"reserved bits":       {0, 0x3f, 0x65, 0x58, 0, 0, 101, 0xff},
		"non-critical option": {2, 0, 0x65, 0x58, 0, 0, 101, 0, 0x01, 0x02, 0x7f, 0xe1, 1, 2, 3, 4},
	} {
		if r := a.send(node1A, append(bytes.Clone(header), inner...)); r.Verdict != gateway.ToTunnel {
			t.Errorf("%s: dropped for %q", name, r.Reason)
		}
	}
	vxlan := append([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 102, 0xff}, node2A.frame(flow{src: v4.otherPodA, dst: v4.seenPodB}.udp(nil))[8:]...)
	if r := a.send(node2A, vxlan); r.Verdict != gateway.ToTunnel {
		t.Errorf("VXLAN reserved bits: dropped for %q", r.Reason)
	}
}

func TestPaddingBehindAPacketIsLeftBehind(t *testing.T) {
	t.Parallel()
	a := newA(t)
	small := flow{src: v4.podA, dst: v4.seenPodB}.udp(nil)
	r := a.fromNode(append(bytes.Clone(small), make([]byte, 18)...)) // Ethernet's 60 bytes
	if len(r.Packet) != len(small) {
		t.Errorf("egress: %d bytes, want %d", len(r.Packet), len(small))
	}
	r = a.fromTunnel(append(flow{src: v4.podB, dst: v4.podA}.udp(nil), make([]byte, 15)...)) // WireGuard's multiple of 16
	if len(r.Packet) != len(small) {
		t.Errorf("ingress: %d bytes, want %d", len(r.Packet), len(small))
	}
	r = a.origin.Packet(append(flow{src: v4.gateway, dst: v4.seenPodB}.udp(nil), 0))
	if len(r.Packet) != len(small) {
		t.Errorf("origin: %d bytes, want %d", len(r.Packet), len(small))
	}
}

func TestG12_AFlowHashesAlikeInBothDirectionsAsThisClusterSeesIt(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, w := range families {
		for _, j := range journeys(w) {
			out := a.fromNode(flow{src: j.src, dst: j.dst}.udp(nil)).Hash
			in := a.fromTunnel(flow{src: j.tunnelSrc, dst: j.tunnelDst}.back().udp(nil)).Hash
			if in != out {
				t.Errorf("%s: %#08x out, %#08x in", j.name, out, in)
			}
		}
	}
}

func TestTapSeesEveryStageInOrder(t *testing.T) {
	t.Parallel()
	a, b := newA(t), newB(t)
	var seen []string
	tap := func(s gateway.Stage, ip []byte) {
		v := receive(t, ip)
		seen = append(seen, fmt.Sprintf("%s %v %v %d", s, v.src, v.dst, v.ttl))
	}
	a.SetTap(tap)
	b.SetTap(tap)
	b.fromTunnel(a.fromNode(flow{src: v4.podA, dst: v4.seenPodB}.echo(nil)).Packet)
	want := []string{
		"from node 10.0.1.5 10.71.2.9 64",
		"into tunnel 10.0.1.5 10.0.2.9 63",
		"from tunnel 10.0.1.5 10.0.2.9 63",
		"to node 10.72.1.5 10.0.2.9 62",
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("tap saw\n%q, want\n%q", seen, want)
	}

	a.SetTap(nil)
	b.SetTap(nil)
	seen = nil
	b.fromTunnel(a.fromNode(flow{src: v4.podA, dst: v4.seenPodB}.echo(nil)).Packet)
	if len(seen) != 0 {
		t.Errorf("removed tap saw %q", seen)
	}
}
