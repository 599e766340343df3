package gateway_test

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"strait.dev/strait/packet"
)

// Packets for tests. Checksums come from the slow sum below, never from the code
// under test.

// flow is a packet from one address to another; zero fields get what an ordinary
// packet has.
type flow struct {
	src, dst   string
	from, to   uint16 // ports of TCP and UDP; 0: 12345, 443
	ttl        uint8  // 0: 64
	df         bool   // IPv4
	fragment   uint16 // IPv4: more-fragments flag and offset in 8 bytes
	options    []byte // IPv4: a multiple of 4
	extensions []byte // IPv6: begins with the header that next names
	next       uint8  // IPv6, with extensions
	proto      uint8  // of a piece; 0: 253, which is for experiments
	partial    bool   // TCP, UDP: leave the checksum to a network card that is not there
}

func (f flow) back() flow {
	f.src, f.dst = f.dst, f.src
	f.from, f.to = f.destinationPort(), f.sourcePort()
	return f
}

func (f flow) sourcePort() uint16 { return cmp.Or(f.from, 12345) }

func (f flow) destinationPort() uint16 { return cmp.Or(f.to, 443) }

// ports are the first four bytes of TCP and UDP.
func (f flow) ports() []byte {
	b := binary.BigEndian.AppendUint16(nil, f.sourcePort())
	return binary.BigEndian.AppendUint16(b, f.destinationPort())
}

const moreFragments = 0x2000

func (f flow) addrs() (src, dst netip.Addr) { return addr(f.src), addr(f.dst) }

// raw is an IP packet of a protocol with any payload.
func (f flow) raw(proto uint8, payload []byte) []byte {
	src, dst := f.addrs()
	if f.ttl == 0 {
		f.ttl = 64
	}
	if src.Is6() {
		next := proto
		if f.extensions != nil {
			next = f.next
		}
		b := []byte{0x60, 0, 0, 0}
		b = binary.BigEndian.AppendUint16(b, uint16(len(f.extensions)+len(payload)))
		b = append(b, next, f.ttl)
		return slices.Concat(b, src.AsSlice(), dst.AsSlice(), f.extensions, payload)
	}
	header := 20 + len(f.options)
	flags := f.fragment
	if f.df {
		flags |= 0x4000
	}
	b := []byte{0x40 | byte(header/4), 0}
	b = binary.BigEndian.AppendUint16(b, uint16(header+len(payload)))
	b = append(b, 0x77, 0x01)
	b = binary.BigEndian.AppendUint16(b, flags)
	b = append(b, f.ttl, proto, 0, 0)
	b = slices.Concat(b, src.AsSlice(), dst.AsSlice(), f.options)
	return append(sealIPv4(b), payload...)
}

// sealIPv4 computes the checksum of an IPv4 header.
func sealIPv4(header []byte) []byte {
	header[10], header[11] = 0, 0
	n := int(header[0]&15) * 4
	binary.BigEndian.PutUint16(header[10:], ^slowSum(header[:n]))
	return header
}

// tcp is a TCP segment with flags and options, a multiple of 4 bytes.
func (f flow) tcp(flags byte, options, payload []byte) []byte {
	m := append(f.ports(), 0, 0, 0x10, 0, 0, 0, 0, 7, byte(5+len(options)/4)<<4, flags, 0xff, 0xff, 0, 0, 0, 0)
	m = slices.Concat(m, options, payload)
	return f.raw(packet.ProtoTCP, f.seal(packet.ProtoTCP, 16, m))
}

const (
	fin = 0x01
	syn = 0x02
	psh = 0x08
	ack = 0x10
)

// mss is the TCP option.
func mss(n uint16) []byte { return []byte{2, 4, byte(n >> 8), byte(n)} }

func (f flow) udp(payload []byte) []byte {
	m := binary.BigEndian.AppendUint16(f.ports(), uint16(8+len(payload)))
	m = slices.Concat(m, []byte{0, 0}, payload)
	return f.raw(packet.ProtoUDP, f.seal(packet.ProtoUDP, 6, m))
}

// echo is a ping.
func (f flow) echo(payload []byte) []byte { return f.icmp(8, 128, 0x00010001, payload) }

// icmp is an ICMP or ICMPv6 message, by the family, with code 0.
func (f flow) icmp(kind4, kind6 byte, rest uint32, body []byte) []byte {
	src, _ := f.addrs()
	kind, proto := kind4, uint8(packet.ProtoICMP)
	if src.Is6() {
		kind, proto = kind6, packet.ProtoICMPv6
	}
	m := binary.BigEndian.AppendUint32([]byte{kind, 0, 0, 0}, rest)
	return f.raw(proto, f.seal(proto, 2, append(m, body...)))
}

// unreachable is an ICMP error that quotes.
func (f flow) unreachable(quote []byte) []byte { return f.icmp(3, 1, 0, quote) }

// tooBig is fragmentation needed or packet too big.
func (f flow) tooBig(mtu int, quote []byte) []byte {
	b := f.icmp(3, 2, uint32(mtu), quote)
	if b[0]>>4 == 4 { // code 4 changes the checksum by as much
		b[21] = 4
		binary.BigEndian.PutUint16(b[22:], 0)
		binary.BigEndian.PutUint16(b[22:], ^slowSum(b[20:]))
	}
	return b
}

// seal puts the checksum at an offset of a message.
func (f flow) seal(proto uint8, at int, m []byte) []byte {
	src, dst := f.addrs()
	pseudo := pseudoHeader(proto, src, dst, len(m))
	if proto == packet.ProtoICMP {
		pseudo = nil
	}
	m[at], m[at+1] = 0, 0
	sum := ^slowSum(pseudo, m)
	if f.partial {
		sum = slowSum(pseudo)
	}
	if sum == 0 && proto == packet.ProtoUDP {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(m[at:], sum)
	return m
}

func pseudoHeader(proto uint8, src, dst netip.Addr, length int) []byte {
	b := slices.Concat(src.AsSlice(), dst.AsSlice(), []byte{0, proto})
	return binary.BigEndian.AppendUint32(b, uint32(length))
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

// piece is a fragment of a datagram, at an offset in bytes.
func (f flow) piece(offset int, more bool, payload []byte) []byte {
	proto := cmp.Or(f.proto, 253)
	f.fragment, f.next, f.extensions = uint16(offset/8), 44, fragmentHeader(proto, offset, more)
	if more {
		f.fragment |= moreFragments
	}
	return f.raw(proto, payload)
}

// fragmentHeader is the IPv6 extension header; offset in bytes.
func fragmentHeader(next byte, offset int, more bool) []byte {
	word := uint16(offset)
	if more {
		word |= 1
	}
	return []byte{next, 0, byte(word >> 8), byte(word), 0, 0, 0, 9}
}

// counting is n bytes that tell their own place.
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8)
	}
	return b
}
