package nat_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// rewriteQuote translates what a copy of b quotes and checks it against the
// twin, inside and outside: the error's own addresses stay, its checksum follows.
func rewriteQuote(t testing.TB, b []byte, src, dst *nat.Map) []byte {
	t.Helper()
	after := slices.Clone(b)
	h := parse(t, after)
	var q packet.IP
	quote, ok := packet.ParseQuote(after, &h, &q)
	if !ok {
		t.Fatalf("no quote in % x", b)
	}
	quoted := q
	nat.RewriteQuote(after, &h, quote, &q, src, dst)
	if q.Src != slowTranslate(src, quoted.Src) || q.Dst != slowTranslate(dst, quoted.Dst) {
		t.Fatalf("q says %v to %v, was %v to %v", q.Src, q.Dst, quoted.Src, quoted.Dst)
	}
	checkQuote(t, b, after, h, quoted, src, dst)
	return after
}

func checkQuote(t testing.TB, b, after []byte, h, quoted packet.IP, src, dst *nat.Map) {
	t.Helper()
	at := int(h.Header) + packet.ICMPHeaderLen
	end := at + int(quoted.Len)
	checkTranslated(t, b[at:end], after[at:end], quoted, src, dst)

	var pseudo []byte
	if h.Version == 6 {
		pseudo = pseudoHeader(h.Proto, h.Src, h.Dst, int(h.Len-h.Header))
	}
	if was, is := excess(pseudo, b[h.Header:h.Len]), excess(pseudo, after[h.Header:h.Len]); was != is {
		t.Fatalf("the error sums to %#x too much, %#x before", is, was)
	}
	outside := slices.Clone(after)
	copy(outside[at:end], b[at:])
	copy(outside[h.Header+2:h.Header+4], b[h.Header+2:])
	if !slices.Equal(outside, b) {
		t.Fatalf("more changed than the quote and the checksum:\n% x\n% x", b, after)
	}
}

// The journey of an error that node B sends about podA's packet, as gateway A
// gets it from the tunnel and hands it to node A.
func TestRFC5508REQ4_PrefixMapsTranslateErrorsOutsideAndInside(t *testing.T) {
	t.Parallel()
	realB := netip.MustParseAddr("10.0.2.9")
	router := netip.MustParseAddr("10.70.0.11")
	asB := netip.MustParseAddr("10.72.1.5") // podA, as the packet had it in cluster B
	b := icmpError(router, podA, whole(packet.ProtoUDP, podA, realB, []byte("ping")))
	seen := mapOf(t, "10.0.0.0/16", "10.71.0.0/16")

	after := rewriteQuote(t, b, nil, seen)
	after, ok := rewrite(t, after, mapOf(t, "10.70.0.0/16", "10.73.0.0/16"), nil)
	want := icmpError(netip.MustParseAddr("10.73.0.11"), podA, whole(packet.ProtoUDP, podA, seenB, []byte("ping")))
	if !ok || !slices.Equal(after, want) {
		t.Errorf("%t\ngot  % x\nwant % x", ok, after, want)
	}

	// The same packet in cluster B: its quote has podA under the address seen there.
	inB := rewriteQuote(t, icmpError(realB, asB, whole(packet.ProtoTCP, asB, realB, nil)), mapOf(t, "10.72.0.0/16", "10.0.0.0/16"), nil)
	want = icmpError(realB, asB, whole(packet.ProtoTCP, podA, realB, nil))
	if !slices.Equal(inB, want) {
		t.Errorf("\ngot  % x\nwant % x", inB, want)
	}
}

func TestRFC5508REQ4_PrefixMapsTranslateQuotesCutAnywhere(t *testing.T) {
	t.Parallel()
	r := random()
	for _, is4 := range []bool{true, false} {
		shortest := packet.IPv4HeaderLen
		if !is4 {
			shortest = packet.IPv6HeaderLen
		}
		for _, proto := range protocols {
			full := whole(proto, randomAddr(r, is4), randomAddr(r, is4), randomBytes(r, 21))
			q := parse(t, full)
			for n := shortest; n <= len(full); n++ {
				src, dst := anyMaps(t, r, q)
				rewriteQuote(t, icmpError(randomAddr(r, is4), q.Src, full[:n]), src, dst)
			}
		}
	}
}

func TestRFC5508REQ4_PrefixMapsTranslateQuotesWithOptionsOrExtensionHeadersCutAnywhere(t *testing.T) {
	t.Parallel()
	r := random()
	with := []byte{60, 0, 1, 4, 0, 0, 0, 0, 44, 0, 1, 4, 0, 0, 0, 0, packet.ProtoUDP, 0, 0, 1, 0, 0, 0, 7}
	for _, c := range []struct {
		full     []byte
		shortest int
	}{
		{ip{src: podA, dst: seenB, proto: packet.ProtoUDP, options: []byte{0x94, 4, 0, 0}}.packet(message(packet.ProtoUDP, podA, seenB, make([]byte, 30))), 24},
		{ip{src: podA6, dst: seenB6, next: 0, extensions: with}.packet(message(packet.ProtoUDP, podA6, seenB6, make([]byte, 32))), 40},
	} {
		q := parse(t, c.full)
		for n := c.shortest; n <= len(c.full); n++ {
			src, dst := anyMaps(t, r, q)
			rewriteQuote(t, icmpError(randomAddr(r, q.Version == 4), q.Src, c.full[:n]), src, dst)
		}
	}
}

func TestRFC5508REQ4_PrefixMapsTranslateQuotedFragments(t *testing.T) {
	t.Parallel()
	r := random()
	for _, is4 := range []bool{true, false} {
		for _, proto := range protocols {
			first, later := twoFragments(whole(proto, randomAddr(r, is4), randomAddr(r, is4), randomBytes(r, 60)), 40)
			q := parse(t, first)
			for range 20 {
				src, dst := anyMaps(t, r, q)
				about := func(quote []byte) []byte { return icmpError(randomAddr(r, is4), q.Src, quote) }
				rewriteQuote(t, about(first), src, dst)
				rewriteQuote(t, about(later), src, dst)
				rewriteQuote(t, about(later[:len(later)-1]), src, dst)
			}
		}
	}
}

func TestRFC1624_QuotedUDPWithoutChecksumStaysWithout(t *testing.T) {
	t.Parallel()
	for _, full := range [][]byte{whole(packet.ProtoUDP, podA, seenB, []byte("ping")), whole(packet.ProtoUDP, podA6, seenB6, []byte("ping"))} {
		q := parse(t, full)
		copy(full[q.Header+6:], []byte{0, 0})
		src, dst := mapFor(t, q.Src, q.Dst, 16), mapFor(t, q.Dst, q.Src, 16)
		after := rewriteQuote(t, icmpError(q.Dst, q.Src, full), src, dst)
		at := len(after) - len("ping") - 2
		if sum := binary.BigEndian.Uint16(after[at:]); sum != 0 {
			t.Errorf("quoted checksum became %#04x", sum)
		}
	}
}

func TestRFC5508REQ4_PrefixMapsKeepTheWrongChecksumOfAQuoteWithAChangedTTL(t *testing.T) {
	t.Parallel()
	full := whole(packet.ProtoTCP, podA, seenB, nil)
	full[8]-- // routers quote what they were about to forward
	rewriteQuote(t, icmpError(seenB, podA, full), mapOf(t, "10.0.0.0/16", "10.72.0.0/16"), mapOf(t, "10.71.0.0/16", "10.0.0.0/16"))
}

func TestRFC5508REQ4_PrefixMapsLeaveWhatStandsBehindTheQuote(t *testing.T) {
	t.Parallel()
	full := whole(packet.ProtoUDP, podA, seenB, []byte("ping"))
	extended := append(slices.Clone(full), "RFC 4884 extensions"...)
	rewriteQuote(t, icmpError(seenB, podA, extended), nil, mapOf(t, "10.71.0.0/16", "10.0.0.0/16"))
}

func TestRewriteQuoteBackGivesTheErrorBack(t *testing.T) {
	t.Parallel()
	r := random()
	for range 20 {
		for _, is4 := range []bool{true, false} {
			for _, proto := range protocols {
				full := whole(proto, randomAddr(r, is4), randomAddr(r, is4), randomBytes(r, 30))
				q := parse(t, full)
				b := icmpError(randomAddr(r, is4), q.Src, full)
				src := mapFor(t, q.Src, randomAddr(r, is4), r.IntN(q.Src.BitLen()+1))
				dst := mapFor(t, q.Dst, randomAddr(r, is4), r.IntN(q.Dst.BitLen()+1))
				back := rewriteQuote(t, rewriteQuote(t, b, src, dst), src.Reverse(), dst.Reverse())
				if !slices.Equal(back, b) {
					t.Fatalf("protocol %d, %v, %v:\ngot  % x\nwant % x", proto, src, dst, back, b)
				}
			}
		}
	}
}
