package packet

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// Sum adds the 16-bit big-endian words of b to initial in one's complement and returns
// the folded, un-inverted sum (RFC 1071 section 1). An odd last byte is the high half of
// its word. A header or message with a correct checksum sums to 0xffff.
func Sum(b []byte, initial uint16) uint16 {
	// Adding 64-bit words little-endian gives the byte-swapped sum (RFC 1071
	// section 2, "Byte Order Independence" and "Parallel Summation").
	acc := uint64(bits.ReverseBytes16(initial))
	var carry uint64
	for len(b) >= 64 {
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[0:8]), 0)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[8:16]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[16:24]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[24:32]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[32:40]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[40:48]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[48:56]), carry)
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b[56:64]), carry)
		acc += carry
		b = b[64:]
	}
	for len(b) >= 8 {
		acc, carry = bits.Add64(acc, binary.LittleEndian.Uint64(b), 0)
		acc += carry
		b = b[8:]
	}
	if len(b) >= 4 {
		acc, carry = bits.Add64(acc, uint64(binary.LittleEndian.Uint32(b)), 0)
		acc += carry
		b = b[4:]
	}
	if len(b) >= 2 {
		acc, carry = bits.Add64(acc, uint64(binary.LittleEndian.Uint16(b)), 0)
		acc += carry
		b = b[2:]
	}
	if len(b) == 1 {
		acc, carry = bits.Add64(acc, uint64(b[0]), 0)
		acc += carry
	}
	return bits.ReverseBytes16(fold64(acc))
}

func fold64(acc uint64) uint16 {
	acc = acc>>32 + acc&0xffffffff
	acc = acc>>32 + acc&0xffffffff
	acc = acc>>16 + acc&0xffff
	acc = acc>>16 + acc&0xffff
	return uint16(acc)
}

// Add adds two folded sums in one's complement.
func Add(a, b uint16) uint16 {
	s := uint32(a) + uint32(b)
	return uint16(s + s>>16)
}

// SumAddr returns the folded sum of an address.
func SumAddr(a netip.Addr) uint16 {
	if a.Is4() {
		b := a.As4()
		return Sum(b[:], 0)
	}
	b := a.As16()
	return Sum(b[:], 0)
}

// Delta is the change of a checksummed field in one's complement: ~m + m' of
// RFC 1624 section 3, folded.
type Delta uint16

// DeltaOf returns the change from one value to another, both as folded sums.
func DeltaOf(from, to uint16) Delta { return Delta(Add(^from, to)) }

// Plus returns the sum of two changes.
func (d Delta) Plus(e Delta) Delta { return Delta(Add(uint16(d), uint16(e))) }

// Update applies a change to a checksum field: HC' = ~(~HC + ~m + m'), equation
// 3 of RFC 1624.
func Update(checksum uint16, d Delta) uint16 { return ^Add(^checksum, uint16(d)) }

// PseudoSum is the folded sum of the pseudo-header of TCP, UDP and ICMPv6
// (RFC 9293 section 3.1, RFC 8200 section 8.1). length is the upper-layer
// length in bytes. IPv4 and IPv6 sum alike: all other words are zero.
func PseudoSum(src, dst netip.Addr, proto uint8, length int) uint16 {
	s := Add(SumAddr(src), SumAddr(dst))
	return Add(Add(s, uint16(proto)), uint16(length))
}

// UpperChecksum computes the checksum of an unfragmented TCP, UDP, UDP-Lite
// with full coverage, DCCP with full coverage or ICMPv6 message from scratch.
// ok is false for other protocols and for headers cut short.
func UpperChecksum(b []byte, ip *IP) (checksum uint16, ok bool) {
	at, ok := checksumOffset(ip.Proto)
	u := ip.Upper(b)
	if !ok || ip.Fragment != Unfragmented || len(u) < at+2 {
		return 0, false
	}
	s := PseudoSum(ip.Src, ip.Dst, ip.Proto, len(u))
	s = Sum(u[:at], s)
	s = Sum(u[at+2:], s) // at is even: the words stay aligned
	if s == 0xffff && isUDP(ip.Proto) {
		return 0xffff, true
	}
	return ^s, true
}

// IsPartial reports whether the checksum field of an unfragmented TCP or UDP packet
// contains only the sum of the pseudo-header. A kernel tunnel device on the same machine
// hands over packets in this state, because it expects a network card to complete the
// checksum. The test is O(1). One correct checksum in 65536 looks the same; completing it
// again does no harm.
func IsPartial(b []byte, ip *IP) bool {
	if ip.Fragment != Unfragmented || ip.Proto != ProtoTCP && ip.Proto != ProtoUDP {
		return false
	}
	at, _ := checksumOffset(ip.Proto)
	u := ip.Upper(b)
	if len(u) < at+2 {
		return false
	}
	return binary.BigEndian.Uint16(u[at:]) == PseudoSum(ip.Src, ip.Dst, ip.Proto, len(u))
}

// Complete computes the checksum of a packet for which IsPartial holds.
func Complete(b []byte, ip *IP) {
	if c, ok := UpperChecksum(b, ip); ok {
		at, _ := checksumOffset(ip.Proto)
		binary.BigEndian.PutUint16(ip.Upper(b)[at:], c)
	}
}

// UpdateAddresses updates the upper-layer checksum of b after a change d of its
// addresses. It reports false when the header is cut short before the checksum field;
// such a packet must not be forwarded half translated.
func UpdateAddresses(b []byte, ip *IP, d Delta) bool {
	if ip.Fragment == LaterFragment {
		return true
	}
	return UpdateUpper(b[ip.Header:ip.Len], ip.Proto, d)
}

// UpdateUpper updates the checksum of the upper-layer header u of protocol proto after a
// change d of the addresses in its pseudo-header. It reports false, with u unchanged,
// when u ends before the checksum field. Protocols whose checksum does not cover
// addresses need no update.
func UpdateUpper(u []byte, proto uint8, d Delta) bool {
	at, ok := checksumOffset(proto)
	if !ok {
		return true
	}
	if len(u) < at+2 {
		return false
	}
	c := binary.BigEndian.Uint16(u[at:])
	if proto == ProtoUDP && c == 0 {
		return true // "none" stays none, RFC 768
	}
	c = Update(c, d)
	if c == 0 && isUDP(proto) {
		c = 0xffff
	}
	binary.BigEndian.PutUint16(u[at:], c)
	return true
}

// isUDP reports whether the protocol sends a computed checksum of 0 as 0xffff. In UDP, 0
// means "no checksum" (RFC 768); in UDP-Lite it is not allowed (RFC 3828 section 3.1).
func isUDP(proto uint8) bool { return proto == ProtoUDP || proto == ProtoUDPLite }
