package gateway_test

import (
	"bytes"
	"slices"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// arpRequest is the frame with which a node asks for an address, RFC 826.
func arpRequest(w wire, sender, target string) []byte {
	m := []byte{0, 1, 0x08, 0, 6, 4, 0, 1}
	m = slices.Concat(m, w.mac[:], addr(sender).AsSlice(), make([]byte, 6), addr(target).AsSlice())
	return w.ethernet([6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, w.mac, 0x0806, m)
}

// solicitation is the frame with which a node asks for an IPv6 address, RFC 4861
// section 4.3.
func solicitation(w wire, sender, target string) []byte {
	t := addr(target).As16()
	group := addr("ff02::1:ff00:0").As16()
	copy(group[13:], t[13:])
	options := slices.Concat([]byte{1, 1}, w.mac[:])
	f := flow{src: sender, dst: addrOf(group[:]), ttl: 255}
	return w.ethernet([6]byte{0x33, 0x33, 0xff, t[13], t[14], t[15]}, w.mac, 0x86dd, f.icmp(0, 135, 0, slices.Concat(t[:], options)))
}

// expectNeighbourAnswer returns the frame that goes back to a node.
func expectNeighbourAnswer(t *testing.T, a *side, w wire, question []byte) []byte {
	t.Helper()
	r := a.send(w, question)
	if r.Verdict != gateway.Drop || r.Reason != gateway.NoReason || r.Answer == nil {
		t.Fatalf("not answered: %q", r.Reason)
	}
	if r.Node == nil || r.Node.Underlay != w.underlay || !bytes.Equal(r.AnswerHeader, w.tunnelHeader()) {
		t.Fatalf("answered to %+v behind % x", r.Node, r.AnswerHeader)
	}
	if d := dropped(&a.egress.Counters); len(d) != 0 {
		t.Fatalf("counted %v", d)
	}
	return r.Answer
}

func TestARPForTheGatewayIsAnswered(t *testing.T) {
	t.Parallel()
	for _, w := range []wire{node1A, node2A} {
		for _, own := range []string{v4.gateway, v4.gateOut} {
			got := expectNeighbourAnswer(t, newA(t), w, arpRequest(w, "10.80.0.11", own))
			want := slices.Concat(w.mac[:], gatewayMAC[:], []byte{0x08, 0x06},
				[]byte{0, 1, 0x08, 0, 6, 4, 0, 2}, gatewayMAC[:], addr(own).AsSlice(), w.mac[:], []byte{10, 80, 0, 11})
			if !bytes.Equal(got, want) {
				t.Errorf("%s:\ngot  % x\nwant % x", own, got, want)
			}
		}
	}
}

func TestNeighbourSolicitationForTheGatewayIsAnswered(t *testing.T) {
	t.Parallel()
	for _, w := range []wire{node1A, node2A} {
		for _, sender := range []string{v6.node, "fe80::1"} { // nodes often ask from link-local
			got := expectNeighbourAnswer(t, newA(t), w, solicitation(w, sender, v6.gateway))
			header := slices.Concat(w.mac[:], gatewayMAC[:], []byte{0x86, 0xdd})
			if !bytes.HasPrefix(got, header) {
				t.Fatalf("Ethernet header % x, want % x", got[:14], header)
			}
			v := expect(t, got[14:], v6.gateway, sender, 255)
			want := slices.Concat([]byte{136, 0}, v.upper[2:4], []byte{0xe0, 0, 0, 0}, addr(v6.gateway).AsSlice(), []byte{2, 1}, gatewayMAC[:])
			if !bytes.Equal(v.upper, want) {
				t.Errorf("advertisement\ngot  % x\nwant % x", v.upper, want)
			}
		}
	}
}

func TestNeighbourQuestionsAreNotForwarded(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for name, b := range map[string][]byte{
		"solicitation across":  flow{src: v6.podA, dst: v6.seenPodB, ttl: 255}.icmp(0, 135, 0, addr(v6.seenPodB).AsSlice()),
		"advertisement across": flow{src: v6.podA, dst: v6.seenPodB, ttl: 255}.icmp(0, 136, 0, addr(v6.podA).AsSlice()),
	} {
		if r := a.fromNode(b); r.Verdict != gateway.Drop || r.Answer != nil {
			t.Errorf("%s: verdict %d", name, r.Verdict)
		}
	}
}

// A hop limit of 255 alone makes nothing a neighbour's.
func TestOrdinaryPacketsWithTheHighestHopLimitCross(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		f := flow{src: w.podA, dst: w.seenPodB, ttl: 255}
		around := func(kind byte) []byte { return f.icmp(13, kind, 0, counting(20)) }
		for _, b := range [][]byte{f.udp([]byte{133, 133}), f.raw(253, []byte{134, 0, 0, 0}), f.echo(nil), around(132), around(138), f.raw(253, nil)} {
			expectVerdict(t, newA(t).fromNode(b), gateway.ToTunnel)
		}
		near := f
		near.ttl = 254
		expectVerdict(t, newA(t).fromNode(near.icmp(8, 135, 0, counting(20))), gateway.ToTunnel) // no neighbour sent that
	}
	empty := flow{src: v6.podA, dst: v6.seenPodB, ttl: 255}.raw(packet.ProtoICMPv6, nil)
	expectDrop(t, newA(t).fromNode(empty), gateway.UpperHeader)
	// A port number that looks like a solicitation's type.
	port := flow{src: v6.podA, dst: v6.seenPodB, ttl: 255, from: 135 << 8}
	expectVerdict(t, newA(t).fromNode(port.udp(nil)), gateway.ToTunnel)
}
