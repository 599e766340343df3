package gateway_test

import (
	"bytes"
	"slices"
	"testing"

	"strait.dev/strait/gateway"
)

// reassemble puts fragments of one datagram together, in any order, from offset
// start on. last is whether the datagram ends with them.
func reassemble(t *testing.T, fragments [][]byte, start int) (payload []byte, last bool) {
	t.Helper()
	var views []view
	for _, b := range fragments {
		views = append(views, receive(t, b))
	}
	slices.SortFunc(views, func(x, y view) int { return x.offset - y.offset })
	for i, v := range views {
		if v.offset != start+len(payload) {
			t.Fatalf("fragment at %d, want one at %d", v.offset, start+len(payload))
		}
		if !v.more && i != len(views)-1 {
			t.Fatal("a fragment behind the last one")
		}
		payload = append(payload, v.upper...)
	}
	return payload, !views[len(views)-1].more
}

func TestI6_LongPacketsThatMayBeFragmentedAre(t *testing.T) {
	t.Parallel()
	for _, j := range journeys(v4) {
		for _, n := range []int{tunnelMTU + 1, 2 * tunnelMTU, 9000, 65_000} {
			f := flow{src: j.src, dst: j.dst}
			r := newA(t).fromNode(sized(n, f))
			expectVerdict(t, r, gateway.ToTunnel)
			all := pieces(t, r, tunnelMTU)
			for _, b := range all {
				expect(t, b, j.tunnelSrc, j.tunnelDst, 63)
			}
			got, last := reassemble(t, all, 0)
			want := flow{src: j.tunnelSrc, dst: j.tunnelDst}
			if !last || !bytes.Equal(got, read(t, sized(n, want)).upper) { // with the checksum of its new addresses
				t.Errorf("%s: %d bytes in %d fragments became something else", j.name, n, len(all))
			}
		}
	}
}

func TestI6_LongPacketsFromTheTunnelAreFragmentedForTheNodeLeg(t *testing.T) {
	t.Parallel()
	for _, j := range journeys(v4) {
		far := flow{src: j.tunnelSrc, dst: j.tunnelDst}.back()
		r := newA(t).fromTunnel(sized(3000, far))
		expectVerdict(t, r, gateway.ToNode)
		all := pieces(t, r, overlayMTU)
		for _, b := range all {
			expect(t, b, j.dst, j.src, 63)
		}
		got, last := reassemble(t, all, 0)
		want := flow{src: j.src, dst: j.dst}.back()
		if !last || !bytes.Equal(got, read(t, sized(3000, want)).upper) {
			t.Errorf("%s: became something else", j.name)
		}
	}
}

func TestFragmentsAreFragmentedFurther(t *testing.T) {
	t.Parallel()
	payload := counting(2400)
	for _, c := range []struct {
		offset int
		more   bool
	}{{0, true}, {1600, true}, {1600, false}} {
		r := newA(t).fromNode(flow{src: v4.podA, dst: v4.seenPodB}.piece(c.offset, c.more, payload))
		expectVerdict(t, r, gateway.ToTunnel)
		got, last := reassemble(t, pieces(t, r, tunnelMTU), c.offset)
		if last == c.more || !bytes.Equal(got, payload) {
			t.Errorf("%+v: %d bytes, last %t", c, len(got), last)
		}
	}
}

// A datagram in fragments crosses both gateways in any order, since addresses
// are all that changes.
func TestRFC4787REQ14_PrefixMapsPassFragmentsInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for _, j := range journeys(w) {
			a, b := newA(t), newB(t)
			whole := flow{src: j.src, dst: j.dst}.udp(counting(2000))
			datagram := read(t, whole).upper
			f := flow{src: j.src, dst: j.dst, proto: 17}
			var arrived [][]byte
			for _, at := range []int{1600, 0, 800} {
				end := min(at+800, len(datagram))
				r := a.fromNode(f.piece(at, end < len(datagram), datagram[at:end]))
				expectVerdict(t, r, gateway.ToTunnel)
				r = b.fromTunnel(r.Packet)
				expectVerdict(t, r, gateway.ToNode)
				expect(t, r.Packet, j.arrivesSrc, j.arrivesDst, 62)
				arrived = append(arrived, bytes.Clone(r.Packet))
			}
			got, last := reassemble(t, arrived, 0)
			want := flow{src: j.arrivesSrc, dst: j.arrivesDst}.udp(counting(2000))
			if !last || !bytes.Equal(got, read(t, want).upper) {
				t.Errorf("%s, IPv%d: reassembled into something else", j.name, whole[0]>>4)
			}
		}
	}
}

func TestFragmentsOfAFlowStayInOrder(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, w := range families {
		f := flow{src: w.podA, dst: w.seenPodB}
		first, later := a.fromNode(f.piece(0, true, counting(64))).Hash, a.fromNode(f.piece(64, false, counting(9))).Hash
		if first != later {
			t.Errorf("%#08x and %#08x", first, later)
		}
	}
}
