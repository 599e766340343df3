package packet

import (
	"encoding/binary"
	"net/netip"
)

// IP protocol numbers (IANA "Assigned Internet Protocol Numbers").
const (
	ProtoICMP     = 1
	ProtoTCP      = 6
	ProtoUDP      = 17
	ProtoDCCP     = 33
	ProtoICMPv6   = 58
	ProtoNoNext   = 59
	ProtoSCTP     = 132
	ProtoUDPLite  = 136
	protoHopByHop = 0
	protoRouting  = 43
	protoFragment = 44
	protoAuth     = 51
	protoDestOpts = 60
	protoMobility = 135
	protoHIP      = 139
	protoShim6    = 140
)

// Header sizes in bytes.
const (
	IPv4HeaderLen = 20 // without options, RFC 791 section 3.1
	IPv6HeaderLen = 40 // RFC 8200 section 3
	TCPHeaderLen  = 20 // without options, RFC 9293 section 3.1
	UDPHeaderLen  = 8  // RFC 768
	ICMPHeaderLen = 8  // RFC 792; RFC 4443 section 2.1 has 4, every message handled here has 8
)

// MaxLen is the maximum length in bytes of an IPv4 packet, and of a UDP datagram.
const MaxLen = 65535

// FamilyIndex returns 0 for an IPv4 address and 1 for any other, as an index of arrays
// with one element per address family.
func FamilyIndex(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// Fragment is the position of a packet within a fragmented datagram.
type Fragment uint8

// The values of Fragment.
const (
	Unfragmented  Fragment = iota
	FirstFragment          // has the upper-layer header, not all of its payload
	LaterFragment          // has no upper-layer header
)

// IP is the result of Parse for one packet. It is a plain value: it can be reused by one
// goroutine and copied freely.
type IP struct {
	Src, Dst netip.Addr // never 4in6, never with a zone
	Version  uint8      // 4 or 6
	Proto    uint8      // the upper-layer protocol, behind IPv6 extension headers
	TTL      uint8      // TTL or hop limit as received
	Fragment Fragment
	DF       bool   // may not be fragmented: IPv4 DF, always true for IPv6
	Header   uint16 // bytes before the upper-layer header (or before the payload of a later fragment)
	Len      uint16 // bytes of the packet by its own header; the slice may be longer

	fragOffset uint16 // byte offset of the IPv6 fragment header, 0 = none
	fragData   uint16 // offset of this fragment's payload in the datagram, bytes
}

// Fault is the reason why a router must not handle a packet. The zero value means that
// there is none.
type Fault uint8

// The faults that Parse reports: RFC 791 section 3.1, RFC 1812 section 5.2.2 and RFC 8200
// section 3 unless noted otherwise.
const (
	FaultNone        Fault = iota
	FaultTruncated         // fewer bytes than the smallest header or than the length in the header
	FaultVersion           // neither 4 nor 6
	FaultHeader            // IPv4 header length below 20 or beyond the packet
	FaultLength            // total or payload length shorter than the headers or longer than b
	FaultChecksum          // IPv4 header checksum
	FaultOptions           // malformed IPv4 options
	FaultSourceRoute       // LSRR, SSRR (RFC 7126 section 4.3, 4.4), a type 0 routing header (RFC 5095), or one with segments left
	FaultExtension         // IPv6 extension headers: cut short, too many, or too long
	FaultFragment          // a fragment that reaches beyond 65535 bytes, or is not a multiple of 8
)

// Parse validates the IP header (and extension headers) of b and fills ip. Bytes beyond
// the packet's own length are ignored: Ethernet and WireGuard add padding. Upper-layer
// headers are not parsed; see Upper.
func Parse(b []byte, ip *IP) Fault {
	if len(b) < IPv4HeaderLen {
		return FaultTruncated
	}
	switch b[0] >> 4 {
	case 4:
		return parseIPv4(b, ip)
	case 6:
		return parseIPv6(b, ip)
	}
	return FaultVersion
}

func parseIPv4(b []byte, ip *IP) Fault {
	header := int(b[0]&0x0f) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	switch {
	case header < IPv4HeaderLen:
		return FaultHeader
	case total < header:
		return FaultLength
	case len(b) < total:
		return FaultTruncated
	}
	if Sum(b[:header], 0) != 0xffff {
		return FaultChecksum
	}
	if header > IPv4HeaderLen {
		if f := checkIPv4Options(b[IPv4HeaderLen:header]); f != FaultNone {
			return f
		}
	}
	flags := binary.BigEndian.Uint16(b[6:])
	offset := (flags & 0x1fff) * 8
	more := flags&0x2000 != 0
	ip.Version = 4
	ip.Src = netip.AddrFrom4([4]byte(b[12:16]))
	ip.Dst = netip.AddrFrom4([4]byte(b[16:20]))
	ip.Proto = b[9]
	ip.TTL = b[8]
	ip.DF = flags&0x4000 != 0
	ip.Header = uint16(header)
	ip.Len = uint16(total)
	ip.fragOffset = 0
	ip.fragData = offset
	return ip.setFragment(more, total-header)
}

// setFragment classifies a fragment by its offset and more-fragments flag. payload is the
// number of bytes after the header.
func (ip *IP) setFragment(more bool, payload int) Fault {
	switch {
	case ip.fragData == 0 && !more:
		ip.Fragment = Unfragmented
		return FaultNone
	case int(ip.fragData)+payload > MaxLen, more && payload%8 != 0, payload == 0:
		return FaultFragment
	case ip.fragData == 0:
		ip.Fragment = FirstFragment
	default:
		ip.Fragment = LaterFragment
	}
	return FaultNone
}

// checkIPv4Options walks the options (RFC 791 section 3.1). Source routes are refused, all
// other options pass unchanged: a router ignores options it does not implement (RFC 7126
// section 4).
func checkIPv4Options(o []byte) Fault {
	for len(o) > 0 {
		switch o[0] {
		case 0: // end of option list
			return FaultNone
		case 1: // no operation
			o = o[1:]
			continue
		case 131, 137: // loose, strict source route
			return FaultSourceRoute
		}
		if len(o) < 2 || o[1] < 2 || int(o[1]) > len(o) {
			return FaultOptions
		}
		o = o[o[1]:]
	}
	return FaultNone
}

// maxExtensions limits the number of IPv6 extension headers. RFC 8200 section 4.1
// recommends at most one of each kind (destination options twice): 7.
const maxExtensions = 8

func parseIPv6(b []byte, ip *IP) Fault {
	if len(b) < IPv6HeaderLen {
		return FaultTruncated
	}
	total := IPv6HeaderLen + int(binary.BigEndian.Uint16(b[4:]))
	switch {
	case total > MaxLen:
		return FaultLength // not possible in a UDP datagram
	case len(b) < total:
		return FaultTruncated
	}
	ip.Version = 6
	ip.Src = netip.AddrFrom16([16]byte(b[8:24]))
	ip.Dst = netip.AddrFrom16([16]byte(b[24:40]))
	if ip.Src.Is4In6() || ip.Dst.Is4In6() {
		return FaultHeader // ::ffff:0:0/96 never appears on the wire, RFC 4942 section 2.2
	}
	ip.TTL = b[7]
	ip.DF = true
	ip.Len = uint16(total)
	ip.Fragment = Unfragmented
	ip.fragOffset, ip.fragData = 0, 0
	return ip.walkExtensions(b[:total], b[6])
}

// walkExtensions finds the upper-layer header of an IPv6 packet, RFC 8200
// section 4. next is the next-header field of the fixed header.
func (ip *IP) walkExtensions(b []byte, next uint8) Fault {
	at := IPv6HeaderLen
	for range maxExtensions {
		size := 0
		switch next {
		case protoHopByHop, protoRouting, protoDestOpts, protoMobility, protoHIP, protoShim6:
			if len(b) < at+8 {
				return FaultExtension
			}
			size = 8 + int(b[at+1])*8
			// Type, segments left. With segments left, addresses of the sender's cluster are
			// listed, and the checksum covers the last of them (RFC 8200 section 8.1): such a
			// packet cannot be translated (RFC 7915 section 5.1).
			if next == protoRouting && (b[at+2] == 0 || b[at+3] != 0) {
				return FaultSourceRoute
			}
		case protoAuth: // RFC 4302 section 2.2: in 4-byte units, minus 2
			if len(b) < at+8 {
				return FaultExtension
			}
			size = 8 + int(b[at+1])*4
		case protoFragment:
			if len(b) < at+8 || ip.fragOffset != 0 {
				return FaultExtension
			}
			size = 8
			word := binary.BigEndian.Uint16(b[at+2:])
			ip.fragOffset = uint16(at)
			ip.fragData = word &^ 7
			if f := ip.setFragment(word&1 != 0, len(b)-at-8); f != FaultNone {
				return f
			}
			if ip.Fragment == LaterFragment {
				ip.Proto = b[at]
				ip.Header = uint16(at + 8)
				return FaultNone
			}
		default:
			ip.Proto = next
			ip.Header = uint16(at)
			return FaultNone
		}
		if len(b) < at+size {
			return FaultExtension
		}
		next = b[at]
		at += size
	}
	return FaultExtension
}

// Upper returns the upper-layer header and payload of b; it is empty for a later fragment.
func (ip *IP) Upper(b []byte) []byte {
	if ip.Fragment == LaterFragment {
		return nil
	}
	return b[ip.Header:ip.Len]
}

// checksumOffset returns the offset of the checksum in an upper-layer header whose checksum
// covers the pseudo-header and so depends on the addresses. The CRC32c of SCTP (RFC 9260
// section 6.8) and the checksum of ICMPv4 do not.
func checksumOffset(proto uint8) (int, bool) {
	switch proto {
	case ProtoTCP:
		return 16, true
	case ProtoUDP, ProtoUDPLite, ProtoDCCP:
		return 6, true
	case ProtoICMPv6:
		return 2, true
	}
	return 0, false
}

// DecrementTTL decrements the TTL or hop limit and updates the IPv4 header checksum. The
// caller has checked that the result is not zero.
func DecrementTTL(b []byte, ip *IP) { lowerTTL(b, ip, 1) }

// ClearTTL sets the TTL or hop limit to 0 and updates the IPv4 header checksum.
func ClearTTL(b []byte, ip *IP) {
	if ip.Version == 6 {
		b[7] = 0
		return
	}
	lowerTTL(b, ip, b[8])
}

func lowerTTL(b []byte, ip *IP, by uint8) {
	if ip.Version == 6 {
		b[7] -= by
		return
	}
	// TTL is the high byte of its 16-bit word: m' = m - by<<8, so the
	// checksum grows by as much (RFC 1141 section 2, RFC 1624 section 3).
	b[8] -= by
	sum := uint32(binary.BigEndian.Uint16(b[10:])) + uint32(by)<<8
	sum += sum >> 16
	if sum&0xffff == 0xffff {
		sum = 0 // as a full computation gives, RFC 1624 section 3
	}
	binary.BigEndian.PutUint16(b[10:], uint16(sum))
}
