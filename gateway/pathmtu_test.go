package gateway_test

import (
	"testing"

	"strait.dev/strait/gateway"
)

// No error makes the gateway cut a flow to less than the minimum link MTU (RFC 8201
// section 4: 1280; RFC 1191 section 3: 68, of which hosts take no less than 552),
// and what it asks of others keeps to the same.
func TestRFC1191_RFC8201_ErrorsOfOthersHaveAFloor(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		floor := 552
		if w == v6 {
			floor = 1280
		}
		for asked, want := range map[int]int{
			0: floor, 1: floor, 67: floor, 68: floor, floor - 1: floor, floor: floor, floor + 1: floor + 1,
			tunnelMTU - 1: tunnelMTU - 1, tunnelMTU: tunnelMTU, tunnelMTU + 1: tunnelMTU, 65535: tunnelMTU,
		} {
			a := newA(t)
			about := flow{src: w.podA, dst: w.podB}.tcp(ack, nil, counting(1300))
			opened(t, a, flow{src: w.podA, dst: w.podB})
			expectVerdict(t, a.fromTunnel(flow{src: w.podB, dst: w.podA}.tooBig(asked, about[:headers(w)])), gateway.ToNode)
			if n := firstSegment(t, a, flow{src: w.podA, dst: w.seenPodB}); n != want {
				t.Errorf("asked for %d: cut to %d, want %d", asked, n, want)
			}
		}
	}
}

// An error counts for the flow that it quotes only, regardless of its sender.
func TestRFC5927_AnErrorShrinksOnlyTheFlowItQuotes(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		quoted := flow{src: w.podA, dst: w.podB, from: 1000, to: 2000}.tcp(ack, nil, counting(1300))
		opened(t, a, flow{src: w.podA, dst: w.podB, from: 1000, to: 2000})
		expectVerdict(t, a.fromTunnel(flow{src: w.podB, dst: w.podA}.tooBig(1300, quoted[:headers(w)])), gateway.ToNode)
		for n := range uint16(2000) {
			f := flow{src: w.podA, dst: w.seenPodB, from: 1001 + n, to: 2000}
			opened(t, a, flow{src: w.podA, dst: w.podB, from: f.from, to: 2000})
			if n := firstSegment(t, a, f); n != tunnelMTU {
				t.Fatalf("ports %d and %d: cut to %d, want %d", f.from, f.to, n, tunnelMTU)
			}
		}
		if n := firstSegment(t, a, flow{src: w.podA, dst: w.seenPodB, from: 1000, to: 2000}); n > 1300 {
			t.Errorf("the quoted flow: cut to %d, want at most 1300", n)
		}
	}
}
