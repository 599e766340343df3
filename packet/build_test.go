package packet_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
)

// Packets for tests, put together field by field. Checksums come from the slow
// twin, never from the code under test.

var (
	podA  = netip.MustParseAddr("10.0.1.5")
	podB  = netip.MustParseAddr("10.71.2.9")
	podA6 = netip.MustParseAddr("fd00:a::1:5")
	podB6 = netip.MustParseAddr("fd00:b::2:9")
)

// IPv4 flags as they stand in the word they share with the fragment offset.
const (
	df = 0x4000
	mf = 0x2000
)

// ipv4 is the header of an IPv4 packet; zero fields get what an ordinary packet has.
type ipv4 struct {
	tos      uint8
	id       uint16
	fragment uint16 // flags and offset in 8 bytes
	ttl      uint8
	proto    uint8
	src, dst netip.Addr
	options  []byte // a multiple of 4
}

func (h ipv4) packet(payload []byte) []byte {
	src, dst := or(h.src, podA).As4(), or(h.dst, podB).As4()
	header := 20 + len(h.options)
	b := []byte{0x40 | byte(header/4), h.tos}
	b = binary.BigEndian.AppendUint16(b, uint16(header+len(payload)))
	b = binary.BigEndian.AppendUint16(b, h.id)
	b = binary.BigEndian.AppendUint16(b, h.fragment)
	b = append(b, or(h.ttl, 64), or(h.proto, 253), 0, 0)
	b = slices.Concat(b, src[:], dst[:], h.options)
	binary.BigEndian.PutUint16(b[10:], ^slowSum(b))
	return append(b, payload...)
}

// ipv6 is the header of an IPv6 packet. extensions start with the header that
// next names; proto is then named by the last of them.
type ipv6 struct {
	class      uint8
	hopLimit   uint8
	next       uint8
	src, dst   netip.Addr
	extensions []byte
}

func (h ipv6) packet(payload []byte) []byte {
	src, dst := or(h.src, podA6).As16(), or(h.dst, podB6).As16()
	b := []byte{0x60 | h.class>>4, h.class << 4, 0, 0}
	b = binary.BigEndian.AppendUint16(b, uint16(len(h.extensions)+len(payload)))
	b = append(b, h.next, or(h.hopLimit, 64))
	return slices.Concat(b, src[:], dst[:], h.extensions, payload)
}

// extension is an IPv6 extension header of 8 bytes, padded with PadN.
func extension(next uint8) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }

// fragmentHeader is the IPv6 one; offset in bytes.
func fragmentHeader(next uint8, offset uint16, more bool, id uint32) []byte {
	word := offset
	if more {
		word |= 1
	}
	b := []byte{next, 0}
	b = binary.BigEndian.AppendUint16(b, word)
	return binary.BigEndian.AppendUint32(b, id)
}

const (
	fin = 0x01
	syn = 0x02
	rst = 0x04
	psh = 0x08
	ack = 0x10
	urg = 0x20
	cwr = 0x80
)

type tcp struct {
	seq     uint32
	flags   uint8
	urgent  uint16
	options []byte // a multiple of 4
	partial bool   // leave the checksum to a network card that is not there
}

// message returns header and payload with the checksum for src and dst.
func (h tcp) message(src, dst netip.Addr, payload []byte) []byte {
	b := []byte{0x30, 0x39, 0x01, 0xbb} // ports 12345, 443
	b = binary.BigEndian.AppendUint32(b, h.seq)
	b = append(b, 0, 0, 0, 7) // acknowledgement
	b = append(b, byte(5+len(h.options)/4)<<4, h.flags, 0xff, 0xff, 0, 0)
	b = binary.BigEndian.AppendUint16(b, h.urgent)
	b = slices.Concat(b, h.options, payload)
	pseudo := pseudoHeader(src, dst, packet.ProtoTCP, len(b))
	if h.partial {
		binary.BigEndian.PutUint16(b[16:], slowSum(pseudo))
	} else {
		binary.BigEndian.PutUint16(b[16:], ^slowSum(pseudo, b))
	}
	return b
}

func udpMessage(src, dst netip.Addr, payload []byte) []byte {
	b := []byte{0x30, 0x39, 0x00, 0x35} // ports 12345, 53
	b = binary.BigEndian.AppendUint16(b, uint16(8+len(payload)))
	b = append(b, 0, 0)
	b = append(b, payload...)
	sum := ^slowSum(pseudoHeader(src, dst, packet.ProtoUDP, len(b)), b)
	binary.BigEndian.PutUint16(b[6:], or(sum, 0xffff)) // RFC 768: 0 means none
	return b
}

// icmpMessage has 4 bytes behind its checksum, then body. For ICMPv6 give the
// addresses.
func icmpMessage(kind, code uint8, rest uint32, body []byte) []byte {
	b := icmpParts(kind, code, rest, body)
	binary.BigEndian.PutUint16(b[2:], ^slowSum(b))
	return b
}

func icmpv6Message(src, dst netip.Addr, kind, code uint8, rest uint32, body []byte) []byte {
	b := icmpParts(kind, code, rest, body)
	binary.BigEndian.PutUint16(b[2:], ^slowSum(pseudoHeader(src, dst, packet.ProtoICMPv6, len(b)), b))
	return b
}

func icmpParts(kind, code uint8, rest uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind, code, 0, 0}, rest)
	return append(b, body...)
}

// Whole packets that many tests start from.

func tcp4(h tcp, payload []byte) []byte {
	return ipv4{fragment: df, proto: packet.ProtoTCP}.packet(h.message(podA, podB, payload))
}

func tcp6(h tcp, payload []byte) []byte {
	return ipv6{next: packet.ProtoTCP}.packet(h.message(podA6, podB6, payload))
}

func udp4(payload []byte) []byte {
	return ipv4{proto: packet.ProtoUDP}.packet(udpMessage(podA, podB, payload))
}

func udp6(payload []byte) []byte {
	return ipv6{next: packet.ProtoUDP}.packet(udpMessage(podA6, podB6, payload))
}

func ping4(payload []byte) []byte {
	return ipv4{proto: packet.ProtoICMP}.packet(icmpMessage(8, 0, 0x00010001, payload))
}

func ping6(payload []byte) []byte {
	return ipv6{next: packet.ProtoICMPv6}.packet(icmpv6Message(podA6, podB6, 128, 0, 0x00010001, payload))
}

// counting is n bytes that tell their own place.
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}

// everyKind is a packet of each shape that the package tells apart: what fuzz
// targets start from.
func everyKind() [][]byte {
	ext := slices.Concat(extension(60), extension(packet.ProtoTCP))
	return [][]byte{
		tcp4(tcp{flags: ack | psh}, counting(100)),
		tcp4(tcp{flags: syn, options: []byte{2, 4, 5, 0xb4, 1, 3, 3, 7}}, nil),
		tcp4(tcp{flags: syn, options: []byte{1, 2, 4, 5, 0xb4, 3, 3, 7}}, nil),
		tcp4(tcp{flags: ack | fin | cwr, partial: true}, counting(4000)),
		tcp6(tcp{flags: syn | ack, options: []byte{2, 4, 5, 0xa0}}, nil),
		tcp6(tcp{flags: ack, partial: true}, counting(4000)),
		ipv6{next: 0, extensions: ext}.packet(tcp{flags: ack}.message(podA6, podB6, counting(3000))),
		udp4(counting(32)), udp6(counting(31)), udp4(counting(3000)),
		ping4(counting(56)), ping6(counting(56)),
		ipv4{id: 7, fragment: mf, proto: packet.ProtoUDP}.packet(counting(1480)),
		ipv4{id: 7, fragment: 185, proto: packet.ProtoUDP}.packet(counting(533)),
		ipv4{id: 9, proto: 50, options: []byte{0x82, 4, 1, 2, 7, 3, 4, 0}}.packet(counting(200)),
		ipv6{next: 44, extensions: fragmentHeader(packet.ProtoUDP, 0, true, 5)}.packet(counting(1232)),
		ipv6{next: 44, extensions: fragmentHeader(packet.ProtoUDP, 1232, false, 5)}.packet(counting(100)),
		ipv6{next: 44, extensions: fragmentHeader(packet.ProtoUDP, 0, false, 5)}.packet(udpMessage(podA6, podB6, counting(9))),
		ipv4{proto: packet.ProtoICMP, src: podB, dst: podA}.packet(icmpMessage(3, 3, 0, udp4(counting(40)))),
		ipv4{proto: packet.ProtoICMP, src: podB, dst: podA}.packet(icmpMessage(11, 0, 0, tcp4(tcp{}, nil)[:28])),
		ipv6{next: packet.ProtoICMPv6, src: podB6, dst: podA6}.packet(icmpv6Message(podB6, podA6, 2, 0, 1280, udp6(counting(1200))[:1232])),
		ipv6{next: packet.ProtoICMPv6, src: podB6, dst: podA6}.packet(icmpv6Message(podB6, podA6, 3, 0, 0,
			ipv6{next: 0, extensions: ext}.packet(tcp{}.message(podA6, podB6, nil))[:50])),
	}
}

// cases is how many random cases to try: fewer under the race detector, which
// is slow and has nothing to find in functions of bytes.
func cases(n int) int {
	if raceflag.Enabled {
		return n / 20
	}
	return n
}

func or[T comparable](v, other T) T {
	var zero T
	if v == zero {
		return other
	}
	return v
}

// parse is Parse for a packet that has to be well.
func parse(t testing.TB, b []byte) packet.IP {
	t.Helper()
	var ip packet.IP
	if f := packet.Parse(b, &ip); f != packet.FaultNone {
		t.Fatalf("Parse: fault %d in % x", f, b)
	}
	return ip
}
