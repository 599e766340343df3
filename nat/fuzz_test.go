package nat_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// everyKind is a packet of each shape that translation tells apart: what fuzz
// targets start from.
func everyKind() [][]byte {
	r := random()
	var all [][]byte
	for _, a := range []struct{ src, dst netip.Addr }{{podA, seenB}, {podA6, seenB6}} {
		for _, proto := range protocols {
			b := whole(proto, a.src, a.dst, randomBytes(r, 40))
			first, later := twoFragments(b, 24)
			all = append(all, b, first, later,
				icmpError(a.dst, a.src, b), icmpError(a.dst, a.src, b[:len(b)-40]), icmpError(a.dst, a.src, later))
		}
	}
	without := whole(packet.ProtoUDP, podA, seenB, []byte("ping"))
	copy(without[26:], []byte{0, 0})
	return append(all, without, icmpError(seenB, podA, without))
}

// fuzzedMap makes a map for an address out of a word: its low bits say how long
// the prefixes are, and whether there is a map at all; the others say where to.
func fuzzedMap(t *testing.T, a netip.Addr, word uint64) *nat.Map {
	if word%8 == 7 {
		return nil
	}
	to := a.AsSlice()
	binary.BigEndian.PutUint32(to, uint32(word>>32))
	binary.BigEndian.PutUint32(to[len(to)-4:], uint32(word>>24))
	addr, _ := netip.AddrFromSlice(to)
	if addr.Is4In6() {
		return nil
	}
	return mapFor(t, a, addr, int(word>>3)%(a.BitLen()+1))
}

// guard gives b a neighbour in memory whose bytes must not change.
func guard(b []byte) (guarded []byte, check func(t *testing.T)) {
	const canary = 0xa5
	memory := slices.Concat(b, slices.Repeat([]byte{canary}, 64))
	return memory[:len(b)], func(t *testing.T) {
		t.Helper()
		for _, v := range memory[len(b):] {
			if v != canary {
				t.Fatal("written behind the packet")
			}
		}
	}
}

func FuzzRewrite(f *testing.F) {
	for i, b := range everyKind() {
		f.Add(b, uint64(i)*0x9e3779b97f4a7c15, uint64(i)*0xc2b2ae3d27d4eb4f)
	}
	f.Fuzz(func(t *testing.T, b []byte, from, to uint64) {
		var h packet.IP
		if packet.Parse(b, &h) != packet.FaultNone {
			return
		}
		before := h
		src, dst := fuzzedMap(t, h.Src, from), fuzzedMap(t, h.Dst, to)
		after, check := guard(b)
		ok := nat.Rewrite(after, &h, src, dst)
		check(t)
		if !ok {
			if !slices.Equal(after, b) || h != before {
				t.Fatalf("refused, but changed:\n% x\n% x", b, after)
			}
			return
		}
		checkTranslated(t, b, after, before, src, dst)
	})
}

func FuzzRewriteQuote(f *testing.F) {
	for i, b := range everyKind() {
		f.Add(b, uint64(i)*0x9e3779b97f4a7c15, uint64(i)*0xc2b2ae3d27d4eb4f)
	}
	f.Fuzz(func(t *testing.T, b []byte, from, to uint64) {
		var h, q packet.IP
		if packet.Parse(b, &h) != packet.FaultNone || !packet.IsICMPError(b, &h) {
			return
		}
		after, check := guard(b)
		quote, ok := packet.ParseQuote(after, &h, &q)
		if !ok {
			return
		}
		quoted := q
		src, dst := fuzzedMap(t, q.Src, from), fuzzedMap(t, q.Dst, to)
		nat.RewriteQuote(after, &h, quote, &q, src, dst)
		check(t)
		checkQuote(t, b, after, h, quoted, src, dst)
	})
}
