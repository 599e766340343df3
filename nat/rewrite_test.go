package nat_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// rewrite translates a copy of b, of which it checks that it is a packet, and
// that ip is kept true.
func rewrite(t testing.TB, b []byte, src, dst *nat.Map) ([]byte, bool) {
	t.Helper()
	after := slices.Clone(b)
	h := parse(t, after)
	ok := nat.Rewrite(after, &h, src, dst)
	if again := parse(t, after); again != h {
		t.Fatalf("ip says %+v, the packet %+v", h, again)
	}
	return after, ok
}

func TestRewriteOfAKnownPacket(t *testing.T) {
	t.Parallel()
	b := []byte{
		0x45, 0x00, 0x00, 0x20, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x23, 0x79, // IPv4, UDP
		10, 0, 1, 5, 10, 71, 2, 9,
		0x30, 0x39, 0x00, 0x35, 0x00, 0x0c, 0xd9, 0x42, // 12345 to 53
		'p', 'i', 'n', 'g',
	}
	after, ok := rewrite(t, b, nil, mapOf(t, "10.71.0.0/16", "10.0.0.0/16"))
	want := slices.Clone(b)
	copy(want[16:], []byte{10, 0, 2, 9})
	binary.BigEndian.PutUint16(want[10:], 0x2379+71) // 71 less in one word of the sum
	binary.BigEndian.PutUint16(want[26:], 0xd942+71)
	if !ok || !slices.Equal(after, want) {
		t.Errorf("%t\ngot  % x\nwant % x", ok, after, want)
	}
}

// anyMaps are maps for two addresses: of any lengths, and none.
func anyMaps(t testing.TB, r *rand.Rand, h packet.IP) (src, dst *nat.Map) {
	is4 := h.Version == 4
	choose := func(a netip.Addr) *nat.Map {
		if r.IntN(4) == 0 {
			return nil
		}
		return mapFor(t, a, randomAddr(r, is4), r.IntN(a.BitLen()+1))
	}
	return choose(h.Src), choose(h.Dst)
}

func TestRewriteOfEveryProtocolEqualsTheTwin(t *testing.T) {
	t.Parallel()
	r := random()
	for range 40 {
		for _, is4 := range []bool{true, false} {
			for _, proto := range protocols {
				b := whole(proto, randomAddr(r, is4), randomAddr(r, is4), randomBytes(r, r.IntN(50)))
				h := parse(t, b)
				src, dst := anyMaps(t, r, h)
				after, ok := rewrite(t, b, src, dst)
				if want := slowRewrite(b, h, src, dst); !ok || !slices.Equal(after, want) {
					t.Fatalf("protocol %d, %v, %v: %t\ngot  % x\nwant % x", proto, src, dst, ok, after, want)
				}
			}
		}
	}
}

func TestRewriteBackGivesThePacketBack(t *testing.T) {
	t.Parallel()
	r := random()
	for range 40 {
		for _, is4 := range []bool{true, false} {
			for _, proto := range protocols {
				b := whole(proto, randomAddr(r, is4), randomAddr(r, is4), randomBytes(r, r.IntN(50)))
				h := parse(t, b)
				src := mapFor(t, h.Src, randomAddr(r, is4), r.IntN(h.Src.BitLen()+1))
				dst := mapFor(t, h.Dst, randomAddr(r, is4), r.IntN(h.Dst.BitLen()+1))
				there, ok := rewrite(t, b, src, dst)
				back, okBack := rewrite(t, there, src.Reverse(), dst.Reverse())
				if !ok || !okBack || !slices.Equal(back, b) {
					t.Fatalf("protocol %d, %v, %v: %t %t\ngot  % x\nwant % x", proto, src, dst, ok, okBack, back, b)
				}
			}
		}
	}
}

// The sums of random packets, of those whose sum is at either edge, and of
// prefixes whose own sums are zero in both of its forms.
func TestRFC1624_IncrementalEqualsFullComputation(t *testing.T) {
	t.Parallel()
	cases := 3_000_000
	if raceflag.Enabled {
		cases /= 20
	}
	r := random()
	type pair struct {
		h        packet.IP
		b        []byte
		src, dst *nat.Map
	}
	var pairs []pair
	for range 300 {
		for _, is4 := range []bool{true, false} {
			for _, proto := range []uint8{packet.ProtoTCP, packet.ProtoUDP, packet.ProtoICMPv6} {
				b := whole(proto, edgeAddr(r, is4), edgeAddr(r, is4), randomBytes(r, 4))
				h := parse(t, b)
				to := edgeAddr(r, is4)
				dst := mapFor(t, h.Dst, edgeAddr(r, is4), r.IntN(h.Dst.BitLen()+1))
				pairs = append(pairs, pair{h, b, mapFor(t, h.Src, to, r.IntN(to.BitLen()+1)), dst})
			}
		}
	}
	w := make([]byte, 128)
	for i := range cases {
		p := &pairs[i%len(pairs)]
		h, m := p.h, p.b[p.h.Header:]
		binary.BigEndian.PutUint32(m[len(m)-4:], r.Uint32())
		if i%8 == 0 { // make what follows the sum an edge: checksum 0 or 0xffff before or after
			binary.BigEndian.PutUint16(m[len(m)-4:], 0)
			putChecksum(m, h.Proto, h.Src, h.Dst)
			binary.BigEndian.PutUint16(m[len(m)-4:], binary.BigEndian.Uint16(m[slowChecksumAt(h.Proto):]))
		}
		putChecksum(m, h.Proto, h.Src, h.Dst)
		after := w[:copy(w, p.b)]
		if !nat.Rewrite(after, &h, p.src, p.dst) {
			t.Fatalf("refused: % x", p.b)
		}
		m = after[h.Header:]
		at := slowChecksumAt(h.Proto)
		got := binary.BigEndian.Uint16(m[at:])
		putChecksum(m, h.Proto, h.Src, h.Dst)
		if want := binary.BigEndian.Uint16(m[at:]); got != want {
			t.Fatalf("protocol %d, %v, %v: %#04x, want %#04x: % x", h.Proto, p.src, p.dst, got, want, p.b)
		}
		if h.Version == 4 && slowSum(after[:20]) != 0xffff {
			t.Fatalf("%v, %v: header checksum wrong: % x", p.src, p.dst, after[:20])
		}
	}
}

// edgeAddr is often one whose words are all zeros or all ones.
func edgeAddr(r *rand.Rand, is4 bool) netip.Addr {
	b := randomAddr(r, is4).AsSlice()
	for i := 0; i < len(b); i += 2 {
		if v := r.IntN(4); v < 2 {
			b[i], b[i+1] = byte(-v), byte(-v)
		}
	}
	if !is4 {
		b[0] |= 0x20
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// endingIn gives the message of a protocol a last word with which its checksum
// becomes sum.
func endingIn(t *testing.T, sum uint16, proto uint8, src, dst netip.Addr) []byte {
	t.Helper()
	for word := range 0x10000 {
		m := message(proto, src, dst, []byte{byte(word >> 8), byte(word)})
		if binary.BigEndian.Uint16(m[slowChecksumAt(proto):]) == sum {
			return m
		}
	}
	t.Fatalf("protocol %d never has the checksum %#04x", proto, sum)
	return nil
}

func TestRFC1624_ChecksumsThatBecomeZero(t *testing.T) {
	t.Parallel()
	m := mapOf(t, "10.71.0.0/16", "10.0.0.0/16")
	for _, c := range []struct {
		proto uint8
		name  string
		want  uint16
	}{
		{packet.ProtoTCP, "TCP", 0x0000},
		{packet.ProtoUDP, "UDP: zero means none", 0xffff},
		{packet.ProtoUDPLite, "UDP-Lite: RFC 3828 section 3.1, zero is not legal", 0xffff},
		{packet.ProtoDCCP, "DCCP", 0x0000},
	} {
		src, podB := podA, netip.MustParseAddr("10.0.2.9")
		after := ip{src: src, dst: podB, proto: c.proto}.packet(endingIn(t, c.want, c.proto, src, podB))
		before, ok := rewrite(t, after, nil, m.Reverse())
		if !ok {
			t.Fatalf("%s: refused", c.name)
		}
		if sum := binary.BigEndian.Uint16(before[20+slowChecksumAt(c.proto):]); sum == 0 || sum == 0xffff {
			t.Fatalf("%s: starts from %#04x", c.name, sum)
		}
		got, ok := rewrite(t, before, nil, m)
		if sum := binary.BigEndian.Uint16(got[20+slowChecksumAt(c.proto):]); !ok || sum != c.want {
			t.Errorf("%s: checksum became %#04x, want %#04x", c.name, sum, c.want)
		}
	}
}

func TestRFC1624_UDPWithoutChecksumStaysWithout(t *testing.T) {
	t.Parallel()
	for _, b := range [][]byte{whole(packet.ProtoUDP, podA, seenB, []byte("ping")), whole(packet.ProtoUDP, podA6, seenB6, []byte("ping"))} {
		h := parse(t, b)
		copy(b[h.Header+6:], []byte{0, 0})
		src, dst := mapFor(t, h.Src, h.Dst, 20), mapFor(t, h.Dst, h.Src, 12)
		after, ok := rewrite(t, b, src, dst)
		if !ok {
			t.Fatal("refused")
		}
		checkTranslated(t, b, after, h, src, dst)
	}
}

func TestRewriteLeavesAWrongChecksumAsWrongAsItWas(t *testing.T) {
	t.Parallel()
	r := random()
	for range 2000 {
		for _, proto := range protocols {
			for _, is4 := range []bool{true, false} {
				b := whole(proto, randomAddr(r, is4), randomAddr(r, is4), randomBytes(r, 9))
				h := parse(t, b)
				copy(b[h.Header+8:], randomBytes(r, 8)) // damage behind the first 8 bytes
				src, dst := anyMaps(t, r, h)
				after, ok := rewrite(t, b, src, dst)
				if !ok {
					t.Fatalf("refused: % x", b)
				}
				checkTranslated(t, b, after, h, src, dst)
			}
		}
	}
}

func TestRewriteEditsNothingBehindThePacket(t *testing.T) {
	t.Parallel()
	b := whole(packet.ProtoTCP, podA, seenB, []byte("data"))
	n := len(b)
	b = append(b, "Ethernet pads"...)
	after, _ := rewrite(t, b, mapOf(t, "10.0.0.0/16", "10.72.0.0/16"), nil)
	if string(after[n:]) != "Ethernet pads" {
		t.Errorf("padding became %q", after[n:])
	}
}

func TestRewriteWithoutMapsChangesNothing(t *testing.T) {
	t.Parallel()
	for _, proto := range protocols {
		b := whole(proto, podA, seenB, []byte("data"))
		if after, ok := rewrite(t, b, nil, nil); !ok || !slices.Equal(after, b) {
			t.Errorf("protocol %d: %t\ngot  % x\nwant % x", proto, ok, after, b)
		}
	}
}

func TestRewriteKeepsOptionsAndExtensionHeaders(t *testing.T) {
	t.Parallel()
	m4, m6 := mapOf(t, "10.71.0.0/16", "10.0.0.0/16"), mapOf(t, "fd00:71::/48", "fd00:10::/48")
	for name, c := range map[string]struct {
		b   []byte
		dst *nat.Map
	}{
		"router alert": {ip{src: podA, dst: seenB, proto: packet.ProtoTCP, options: []byte{0x94, 4, 0, 0}}.
			packet(message(packet.ProtoTCP, podA, seenB, nil)), m4},
		"hop-by-hop and destination options": {ip{src: podA6, dst: seenB6, next: 0, extensions: []byte{
			60, 0, 1, 4, 0, 0, 0, 0,
			packet.ProtoUDP, 0, 1, 4, 0, 0, 0, 0,
		}}.packet(message(packet.ProtoUDP, podA6, seenB6, []byte("data"))), m6},
		"atomic fragment": {ip{src: podA6, dst: seenB6, next: 44, extensions: []byte{packet.ProtoTCP, 0, 0, 0, 0, 0, 0, 1}}.
			packet(message(packet.ProtoTCP, podA6, seenB6, []byte("data"))), m6},
	} {
		h := parse(t, c.b)
		after, ok := rewrite(t, c.b, nil, c.dst)
		if want := slowRewrite(c.b, h, nil, c.dst); !ok || !slices.Equal(after, want) {
			t.Errorf("%s: %t\ngot  % x\nwant % x", name, ok, after, want)
		}
	}
}

func TestRFC4787REQ14_PrefixMapsTranslateFragmentsInAnyOrder(t *testing.T) {
	t.Parallel()
	r := random()
	for _, is4 := range []bool{true, false} {
		for _, proto := range protocols {
			b := whole(proto, randomAddr(r, is4), randomAddr(r, is4), randomBytes(r, 60))
			h := parse(t, b)
			src, dst := anyMaps(t, r, h)
			first, later := twoFragments(b, 40)
			later, okLater := rewrite(t, later, src, dst) // before the one that has the ports
			first, okFirst := rewrite(t, first, src, dst)
			if !okFirst || !okLater {
				t.Fatalf("protocol %d: refused", proto)
			}
			got, want := join(first, later), slowRewrite(join(twoFragments(b, 40)), h, src, dst)
			if !slices.Equal(got, want) {
				t.Errorf("protocol %d, %v, %v: reassembled\ngot  % x\nwant % x", proto, src, dst, got, want)
			}
		}
	}
}

func TestRewriteRefusesAHeaderThatEndsBeforeItsChecksumAndLeavesItUntouched(t *testing.T) {
	t.Parallel()
	for _, a := range []struct{ src, dst netip.Addr }{{podA, seenB}, {podA6, seenB6}} {
		m := mapFor(t, a.dst, a.src, 16)
		for _, proto := range protocols {
			full := message(proto, a.src, a.dst, nil)
			for n := range len(full) {
				b := ip{src: a.src, dst: a.dst, proto: proto}.packet(full[:n])
				after, ok := rewrite(t, b, nil, m)
				if want := n >= slowChecksumAt(proto)+2 || slowChecksumAt(proto) < 0; ok != want {
					t.Errorf("protocol %d, %d bytes of header: %t, want %t", proto, n, ok, want)
				}
				if !ok && !slices.Equal(after, b) {
					t.Errorf("protocol %d, %d bytes of header: refused, but changed", proto, n)
				}
			}
		}
	}
}
