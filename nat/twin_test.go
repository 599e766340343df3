package nat_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// The slow, obvious twin: addresses are strings of bits, checksums are sums of
// all words modulo 65535, computed anew every time.

// bitString writes an address as its 0s and 1s.
func bitString(a netip.Addr) string {
	var s strings.Builder
	for _, v := range a.AsSlice() {
		fmt.Fprintf(&s, "%08b", v)
	}
	return s.String()
}

func addrOfBits(s string) netip.Addr {
	b := make([]byte, len(s)/8)
	for i, c := range s {
		b[i/8] = b[i/8]<<1 | byte(c-'0')
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// slowTranslate takes the network bits of to and the host bits of a.
func slowTranslate(m *nat.Map, a netip.Addr) netip.Addr {
	if m == nil {
		return a
	}
	n := m.To().Bits()
	return addrOfBits(bitString(m.To().Addr())[:n] + bitString(a)[n:])
}

// slowSum adds the 16-bit words of parts, of which only the last may be odd in
// length, with carries coming round (RFC 1071 section 1).
func slowSum(parts ...[]byte) uint16 {
	sum := 0
	for _, b := range parts {
		for i, v := range b {
			if i%2 == 0 {
				sum += int(v) << 8
			} else {
				sum += int(v)
			}
		}
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
	}
	return uint16(sum)
}

// slowChecksumAt is where a protocol keeps a checksum that covers the addresses:
// RFC 9293 section 3.1, RFC 768, RFC 3828, RFC 4340 section 5.1, RFC 4443
// section 2.3. -1 for ICMP, for SCTP, whose CRC covers no addresses, and for
// what is not known.
func slowChecksumAt(proto uint8) int {
	switch proto {
	case 6:
		return 16
	case 17, 136, 33:
		return 6
	case 58:
		return 2
	}
	return -1
}

// neverZero names the protocols that send a computed zero as all ones: RFC 768,
// for which zero means none, and RFC 3828 section 3.1, for which it means nothing.
func neverZero(proto uint8) bool { return proto == packet.ProtoUDP || proto == packet.ProtoUDPLite }

func pseudoHeader(proto uint8, src, dst netip.Addr, length int) []byte {
	b := slices.Concat(src.AsSlice(), dst.AsSlice(), []byte{0, proto})
	return binary.BigEndian.AppendUint32(b, uint32(length))
}

// putChecksum writes the right checksum into a message.
func putChecksum(m []byte, proto uint8, src, dst netip.Addr) {
	at, pseudo := slowChecksumAt(proto), pseudoHeader(proto, src, dst, len(m))
	switch {
	case proto == packet.ProtoICMP:
		at, pseudo = 2, nil
	case at < 0:
		return
	}
	m[at], m[at+1] = 0, 0
	sum := ^slowSum(pseudo, m)
	if sum == 0 && neverZero(proto) {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(m[at:], sum)
}

// slowRewrite is what Rewrite has to make of an unfragmented packet with right
// checksums: new addresses, everything summed up anew. UDP's "no checksum" stays.
func slowRewrite(b []byte, h packet.IP, src, dst *nat.Map) []byte {
	w := slices.Clone(b)
	from, to := slowTranslate(src, h.Src), slowTranslate(dst, h.Dst)
	at := 12
	if h.Version == 6 {
		at = 8
	}
	n := copy(w[at:], from.AsSlice())
	copy(w[at+n:], to.AsSlice())
	if h.Version == 4 {
		w[10], w[11] = 0, 0
		binary.BigEndian.PutUint16(w[10:], ^slowSum(w[:h.Header]))
	}
	m := w[h.Header:h.Len]
	if h.Proto == packet.ProtoUDP && m[6] == 0 && m[7] == 0 {
		return w
	}
	putChecksum(m, h.Proto, from, to)
	return w
}

// excess is what a sum of everything under a checksum has too much, modulo
// 65535: 0 says that it is right. Translating must not change it, for then the
// receiver judges the packet as it would have judged the one that was sent, even
// when part of it is missing here.
func excess(parts ...[]byte) int { return int(slowSum(parts...)) % 0xffff }

func upperExcess(h packet.IP, m []byte) int {
	return excess(pseudoHeader(h.Proto, h.Src, h.Dst, 0), m)
}

// checkTranslated compares a packet that was translated with the one before,
// field by field, for packets of any kind: fragments, wrong checksums, quotes cut
// short. hb and ha are the headers before and after; length counts what is there.
func checkTranslated(t testing.TB, before, after []byte, hb packet.IP, src, dst *nat.Map) {
	t.Helper()
	ha := hb
	ha.Src, ha.Dst = slowTranslate(src, hb.Src), slowTranslate(dst, hb.Dst)
	restored := slices.Clone(after)
	at := 8
	if hb.Version == 4 {
		at = 12
	}
	n := len(hb.Src.AsSlice())
	if got, _ := netip.AddrFromSlice(after[at : at+n]); got != ha.Src {
		t.Fatalf("source %v became %v, want %v (%v)", hb.Src, got, ha.Src, src)
	}
	if got, _ := netip.AddrFromSlice(after[at+n : at+2*n]); got != ha.Dst {
		t.Fatalf("destination %v became %v, want %v (%v)", hb.Dst, got, ha.Dst, dst)
	}
	copy(restored[at:at+2*n], before[at:])
	if hb.Version == 4 {
		if was, is := excess(before[:hb.Header]), excess(after[:hb.Header]); was != is {
			t.Fatalf("IPv4 header sums to %#x too much, %#x before", is, was)
		}
		copy(restored[10:12], before[10:])
	}
	mb, ma := before[hb.Header:hb.Len], after[hb.Header:hb.Len]
	if c := slowChecksumAt(hb.Proto); c >= 0 && hb.Fragment != packet.LaterFragment && len(mb) >= c+2 {
		was, is := binary.BigEndian.Uint16(mb[c:]), binary.BigEndian.Uint16(ma[c:])
		switch {
		case hb.Proto == packet.ProtoUDP && was == 0:
			if is != 0 {
				t.Fatalf("UDP without checksum got %#04x", is)
			}
		case upperExcess(hb, mb) != upperExcess(ha, ma):
			t.Fatalf("protocol %d checksum %#04x became %#04x: sums to %#x too much, %#x before", hb.Proto, was, is, upperExcess(ha, ma), upperExcess(hb, mb))
		case neverZero(hb.Proto) && was != 0 && is == 0:
			t.Fatalf("protocol %d checksum %#04x became zero", hb.Proto, was)
		}
		copy(restored[int(hb.Header)+c:], mb[c:c+2])
	}
	if !slices.Equal(restored, before) {
		t.Fatalf("more changed than addresses and checksums:\n% x\n% x", before, after)
	}
}
