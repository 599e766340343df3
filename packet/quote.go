package packet

import (
	"encoding/binary"
	"net/netip"
)

// IsICMPError reports whether b is an ICMP error, which quotes a packet: destination
// unreachable, source quench, redirect, time exceeded or parameter problem (RFC 1122
// section 3.2.2), and every ICMPv6 type below 128 (RFC 4443 section 2.1). A later fragment
// of an error is not recognised.
func IsICMPError(b []byte, ip *IP) bool {
	u := ip.Upper(b)
	if len(u) == 0 {
		return false
	}
	switch {
	case ip.Version == 4 && ip.Proto == ProtoICMP:
		switch u[0] {
		case 3, 4, 5, 11, 12:
			return true
		}
	case ip.Version == 6 && ip.Proto == ProtoICMPv6:
		return u[0] < 128
	}
	return false
}

// ICMPChecksumOK verifies the checksum of an ICMP or ICMPv6 message (RFC 5508 REQ-3: a NAT
// drops an error whose checksum is wrong). The checksum of a fragment cannot be verified
// and counts as correct: the receiver verifies the whole datagram. It returns false for
// packets that are not ICMP of their family.
func ICMPChecksumOK(b []byte, ip *IP) bool {
	sum := uint16(0)
	switch {
	case ip.Version == 4 && ip.Proto == ProtoICMP:
	case ip.Version == 6 && ip.Proto == ProtoICMPv6:
		sum = PseudoSum(ip.Src, ip.Dst, ProtoICMPv6, int(ip.Len-ip.Header))
	default:
		return false
	}
	return ip.Fragment != Unfragmented || Sum(ip.Upper(b), sum) == 0xffff
}

// ParseQuote finds the packet that an ICMP error quotes and fills q from it. IsICMPError
// must hold for b and ip. quote aliases b, so that it can be edited in place; q.Len is its
// length.
//
// Quotes are usually truncated, so only the fixed IP header and the IPv4 options are
// required. q.Header is the offset of the upper-layer header, at most q.Len, even if that
// header is cut off. When IPv6 extension headers are cut off, q.Proto is the first missing
// header. The quoted header checksum is not verified: routers change the TTL before they
// quote.
//
// ok is false when the quote is not a packet of the error's own IP version.
func ParseQuote(b []byte, ip *IP, q *IP) (quote []byte, ok bool) {
	u := ip.Upper(b)
	if len(u) < ICMPHeaderLen+IPv4HeaderLen {
		return nil, false
	}
	quote = u[ICMPHeaderLen:]
	switch {
	case quote[0]>>4 != ip.Version:
		return nil, false
	case ip.Version == 4:
		ok = q.quotedIPv4(quote)
	default:
		ok = q.quotedIPv6(quote)
	}
	if !ok {
		return nil, false
	}
	return quote[:q.Len], true
}

func (ip *IP) quotedIPv4(b []byte) bool {
	header := ipv4HeaderLen(b)
	total := int(binary.BigEndian.Uint16(b[2:]))
	if header < IPv4HeaderLen || header > len(b) || total < header {
		return false
	}
	flags := binary.BigEndian.Uint16(b[6:])
	*ip = IP{
		Version: 4,
		Src:     netip.AddrFrom4([4]byte(b[12:16])),
		Dst:     netip.AddrFrom4([4]byte(b[16:20])),
		Proto:   b[9],
		TTL:     b[8],
		DF:      flags&0x4000 != 0,
		Header:  uint16(header),
		Len:     uint16(min(len(b), total)),
	}
	ip.quotedFragment(flags&ipv4FragmentOffset*8, flags&ipv4MoreFragments != 0)
	return true
}

func (ip *IP) quotedIPv6(b []byte) bool {
	if len(b) < IPv6HeaderLen {
		return false
	}
	total := IPv6HeaderLen + int(binary.BigEndian.Uint16(b[4:]))
	*ip = IP{
		Version: 6,
		Src:     netip.AddrFrom16([16]byte(b[8:24])),
		Dst:     netip.AddrFrom16([16]byte(b[24:40])),
		TTL:     b[7],
		DF:      true,
		Len:     uint16(min(len(b), total)),
	}
	if ip.Src.Is4In6() || ip.Dst.Is4In6() {
		return false
	}
	ip.quotedExtensions(b[:ip.Len], b[6])
	return true
}

// quotedExtensions is walkExtensions for a truncated packet: it stops without a fault at
// the end of the bytes.
func (ip *IP) quotedExtensions(b []byte, next uint8) {
	at := IPv6HeaderLen
	for range maxExtensions {
		if ip.Fragment == LaterFragment || len(b) < at+8 {
			break
		}
		size := 8 + int(b[at+1])*8
		switch next {
		case protoHopByHop, protoRouting, protoDestOpts, protoMobility, protoHIP, protoShim6:
		case protoAuth: // RFC 4302 section 2.2: in 4-byte units, minus 2
			size = 8 + int(b[at+1])*4
		case protoFragment:
			size = 8
			word := binary.BigEndian.Uint16(b[at+2:])
			ip.fragOffset = uint16(at)
			ip.quotedFragment(word&^7, word&1 != 0)
		default:
			ip.Proto, ip.Header = next, uint16(at)
			return
		}
		if len(b) < at+size {
			break
		}
		next = b[at]
		at += size
	}
	ip.Proto, ip.Header = next, uint16(at)
}

// quotedFragment is setFragment without the checks that need the whole payload.
func (ip *IP) quotedFragment(offset uint16, more bool) {
	ip.fragData = offset
	switch {
	case offset != 0:
		ip.Fragment = LaterFragment
	case more:
		ip.Fragment = FirstFragment
	}
}
