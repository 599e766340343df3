package gateway_test

import (
	"bytes"
	"testing"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// What pod B states about the segments of a flow takes another gateway of A than the segments do. Each gateway of A
// learns it from the copy, and forwards none.
func TestCopiesOfHintsReachTheOtherGateways(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		there := flow{src: w.seenPodA, dst: w.podB} // in B
		back, about := there.back(), there.tcp(ack, nil, counting(1300))
		ofPod := flow{src: w.podA, dst: w.seenPodB}
		for _, c := range []struct {
			name    string
			packet  []byte
			flow    flow // in A
			segment int
		}{
			{"SYN-ACK", back.tcp(syn|ack, mss(600), nil), ofPod, 600 + headers(w)},
			{"SYN", back.tcp(syn, mss(700), nil), ofPod, 700 + headers(w)},
			{"error of the pod", back.tooBig(everyPath, about[:headers(w)]), ofPod, everyPath},
			{"error of the node", flow{src: w.node, dst: w.seenPodA}.tooBig(everyPath, about[:headers(w)]), ofPod, everyPath},
		} {
			b := newB(t)
			r := b.fromNode(c.packet)
			expectVerdict(t, r, gateway.ToTunnel)
			if r.Hint == nil {
				t.Fatalf("%s: no hint", c.name)
			}
			hint := bytes.Clone(r.Hint)
			a, other := newA(t), newA(t)
			expectVerdict(t, a.fromTunnel(bytes.Clone(r.Packet)), gateway.ToNode)
			if c.segment == everyPath { // an error allows no more than before: the MSS is known already
				opened(t, other, flow{src: w.podA, dst: w.podB})
			}
			if r := other.fromTunnel(hint); r.Verdict != gateway.Drop || r.Reason != gateway.NoReason || r.Answer != nil {
				t.Errorf("%s: the copy is not only read: %+v", c.name, r)
			}
			if n := firstSegment(t, other, c.flow); n != c.segment {
				t.Errorf("%s: the other gateway cuts to %d, want %d", c.name, n, c.segment)
			}
		}
	}
}

func TestOnlyPacketsAboutSegmentsAreCopied(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		there := flow{src: w.seenPodA, dst: w.podB} // in B
		back, about := there.back(), there.tcp(ack, nil, counting(1300))
		b := newB(t)
		for name, sent := range map[string][]byte{
			"data":               back.tcp(ack, nil, counting(100)),
			"RST":                back.tcp(0x04, nil, nil),
			"UDP":                back.udp(counting(100)),
			"another ICMP error": back.unreachable(about[:headers(w)]),
			"SYN with much data": back.tcp(syn, mss(1000), counting(everyPath-headers(w))),
		} {
			r := b.fromNode(sent)
			expectVerdict(t, r, gateway.ToTunnel)
			if r.Hint != nil {
				t.Errorf("%s is copied", name)
			}
		}
		// An address that belongs to one gateway has no flows through others.
		b.SetOwners(gateway.Owners{addr(w.podA): exit{}})
		r := b.fromNode(back.tcp(syn, mss(1000), nil))
		expectVerdict(t, r, gateway.ToTunnel)
		if r.Hint != nil || r.Owner == nil {
			t.Errorf("a SYN to an address of one gateway: owner %v, copied %t", r.Owner, r.Hint != nil)
		}
	}
}

// exit is the link to a gateway.
type exit struct{}

func (exit) Forward([]byte) gateway.Reason { return gateway.NoReason }

// A pod that sends only SYNs, or errors, makes the gateway copy a limited number of them; the packets themselves pass.
func TestT11_CopiesOfHintsHaveABudgetPerNode(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		b := newB(t)
		flood := func() (copies int) {
			for port := range uint16(5000) {
				r := b.fromNode(flow{src: w.podB, dst: w.seenPodA, from: 1 + port, to: 80}.tcp(syn, mss(1000), nil))
				expectVerdict(t, r, gateway.ToTunnel)
				if r.Hint != nil {
					copies++
				}
			}
			return copies
		}
		if n := flood(); n != 1000 {
			t.Errorf("%d copies at once, want 1000", n)
		}
		b.now = b.now.Add(500 * time.Millisecond)
		if n := flood(); n != 500 {
			t.Errorf("%d copies after half a second, want 500", n)
		}
	}
}

// No router forwards TTL 0 (RFC 1812, section 5.3.1).
func TestRFC1812_TTLZeroIsNeverForwarded(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		f := flow{src: w.podB, dst: w.podA}
		for _, b := range [][]byte{f.tcp(ack, nil, counting(10)), f.udp(counting(10)), f.echo(counting(10))} {
			expectDrop(t, a.fromTunnel(withoutTTL(b)), gateway.TTLExceeded)
		}
		expectDrop(t, a.fromTunnel(withoutTTL(f.tcp(syn, mss(1000), nil))), gateway.NoReason) // a copy, which is read
		f.dst = w.gateOut                                                                     // the host of a gateway must not accept a copy: another gateway accepts the SYN
		expectDrop(t, a.fromTunnel(withoutTTL(f.tcp(syn, mss(1000), nil))), gateway.NoReason)
	}
}

// withoutTTL sets the TTL of a packet to 0.
func withoutTTL(b []byte) []byte {
	var ip packet.IP
	packet.Parse(b, &ip)
	packet.ClearTTL(b, &ip)
	return b
}
