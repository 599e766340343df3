package nat_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// Packets for tests. Their checksums come from the twin, never from the code
// under test.

var (
	podA  = netip.MustParseAddr("10.0.1.5")
	seenB = netip.MustParseAddr("10.71.2.9")

	podA6  = netip.MustParseAddr("fd00:10::1:5")
	seenB6 = netip.MustParseAddr("fd00:71::2:9")
)

// protocols are those that a translator has to tell apart.
var protocols = []uint8{
	packet.ProtoTCP, packet.ProtoUDP, packet.ProtoUDPLite, packet.ProtoDCCP, packet.ProtoSCTP,
	packet.ProtoICMP, packet.ProtoICMPv6, packet.ProtoNoNext, 50, 253,
}

// ip is an IP packet in the making; zero fields get what an ordinary one has.
type ip struct {
	src, dst   netip.Addr
	proto      uint8
	ttl        uint8
	fragment   uint16 // IPv4: flags and offset in 8 bytes
	options    []byte // IPv4: a multiple of 4
	extensions []byte // IPv6: starts with the header next names
	next       uint8  // IPv6: with extensions
}

const (
	df = 0x4000
	mf = 0x2000
)

func (h ip) packet(payload []byte) []byte {
	if h.ttl == 0 {
		h.ttl = 64
	}
	if h.src.Is4() {
		return h.v4(payload)
	}
	return h.v6(payload)
}

func (h ip) v4(payload []byte) []byte {
	header := 20 + len(h.options)
	b := []byte{0x40 | byte(header/4), 0}
	b = binary.BigEndian.AppendUint16(b, uint16(header+len(payload)))
	b = append(b, 0x12, 0x34)
	b = binary.BigEndian.AppendUint16(b, h.fragment)
	b = append(b, h.ttl, h.proto, 0, 0)
	b = slices.Concat(b, h.src.AsSlice(), h.dst.AsSlice(), h.options)
	binary.BigEndian.PutUint16(b[10:], ^slowSum(b))
	return append(b, payload...)
}

func (h ip) v6(payload []byte) []byte {
	next := h.proto
	if h.extensions != nil {
		next = h.next
	}
	b := []byte{0x60, 0, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.extensions)+len(payload)))
	b = append(b, next, h.ttl)
	return slices.Concat(b, h.src.AsSlice(), h.dst.AsSlice(), h.extensions, payload)
}

// message is an upper-layer message of a protocol, at least 8 bytes, with body
// behind its header and a right checksum.
func message(proto uint8, src, dst netip.Addr, body []byte) []byte {
	b := make([]byte, headerLen(proto), headerLen(proto)+len(body))
	copy(b, []byte{0x30, 0x39, 0x01, 0xbb})
	switch proto {
	case packet.ProtoTCP:
		b[12] = 5 << 4
	case packet.ProtoUDP:
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)+len(body)))
	case packet.ProtoICMP:
		b[0], b[1] = 8, 0
	case packet.ProtoICMPv6:
		b[0], b[1] = 128, 0
	}
	b = append(b, body...)
	putChecksum(b, proto, src, dst)
	return b
}

func headerLen(proto uint8) int {
	if proto == packet.ProtoTCP {
		return 20
	}
	return 8
}

// whole is a packet of a protocol between two addresses.
func whole(proto uint8, src, dst netip.Addr, body []byte) []byte {
	return ip{src: src, dst: dst, proto: proto}.packet(message(proto, src, dst, body))
}

// icmpError is an ICMP error from one host to another, with the unreachable type
// of its family, that quotes.
func icmpError(src, dst netip.Addr, quote []byte) []byte {
	proto, kind := uint8(packet.ProtoICMP), byte(3)
	if src.Is6() {
		proto, kind = packet.ProtoICMPv6, 1
	}
	m := append([]byte{kind, 1, 0, 0, 0, 0, 0, 0}, quote...)
	putChecksum(m, proto, src, dst)
	return ip{src: src, dst: dst, proto: proto}.packet(m)
}

// fragments of one IPv6 or IPv4 packet without options: the first size bytes of
// its payload, a multiple of 8, and the rest.
func twoFragments(b []byte, size int) (first, later []byte) {
	h := parse(nil, b)
	payload := b[h.Header:h.Len]
	if h.Version == 4 {
		piece := ip{src: h.Src, dst: h.Dst, proto: h.Proto}
		piece.fragment = mf
		first = piece.packet(payload[:size])
		piece.fragment = uint16(size / 8)
		return first, piece.packet(payload[size:])
	}
	piece := ip{src: h.Src, dst: h.Dst, next: 44}
	piece.extensions = []byte{h.Proto, 0, 0, 1, 0, 0, 0, 7}
	first = piece.packet(payload[:size])
	piece.extensions = []byte{h.Proto, 0, byte(size >> 8), byte(size), 0, 0, 0, 7}
	return first, piece.packet(payload[size:])
}

// join puts two such fragments together again.
func join(first, later []byte) []byte {
	f, l := parse(nil, first), parse(nil, later)
	payload := slices.Concat(first[f.Header:], later[l.Header:])
	return ip{src: f.Src, dst: f.Dst, proto: f.Proto}.packet(payload)
}

// random is the same in every run.
func random() *rand.Rand { return rand.New(rand.NewPCG(6296, 1624)) }

func randomAddr(r *rand.Rand, is4 bool) netip.Addr {
	if is4 {
		return netip.AddrFrom4([4]byte(randomBytes(r, 4)))
	}
	b := [16]byte(randomBytes(r, 16))
	b[0] |= 0x20 // never 4in6
	return netip.AddrFrom16(b)
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// mapFor translates the range of length bits around one address into the one
// around another.
func mapFor(t testing.TB, from, to netip.Addr, bits int) *nat.Map {
	t.Helper()
	m, err := nat.NewMap(netip.PrefixFrom(from, bits).Masked(), netip.PrefixFrom(to, bits).Masked())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mapOf(t testing.TB, from, to string) *nat.Map {
	t.Helper()
	m, err := nat.NewMap(netip.MustParsePrefix(from), netip.MustParsePrefix(to))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// parse is packet.Parse for a packet that has to be well. t may be nil in
// builders, whose packets are.
func parse(t testing.TB, b []byte) packet.IP {
	var h packet.IP
	if f := packet.Parse(b, &h); f != packet.FaultNone {
		if t == nil {
			panic("not a packet")
		}
		t.Helper()
		t.Fatalf("Parse: fault %d in % x", f, b)
	}
	return h
}
