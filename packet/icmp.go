package packet

import (
	"encoding/binary"
	"net/netip"
)

// ErrorKind is the meaning of an ICMP error, the same for both families.
type ErrorKind uint8

// The errors that a router sends, and one that it sends as a host.
const (
	TimeExceeded    ErrorKind = iota // TTL or hop limit ran out in transit
	TooBig                           // does not fit and may not be fragmented
	NetUnreachable                   // no route
	HostUnreachable                  // a route, but the host does not answer
	Prohibited                       // refused by the administrator
	PortUnreachable                  // the host itself answers: nothing listens there

	ErrorKinds = iota // number of kinds
)

// errorForms has the name, type and code of each kind: RFC 792; RFC 1812 section 5.2.7.1
// for code 13; RFC 4443 section 3.
var errorForms = [ErrorKinds]struct {
	name         string
	type4, code4 uint8
	type6, code6 uint8
}{
	TimeExceeded:    {"time_exceeded", 11, 0, 3, 0},
	TooBig:          {"too_big", 3, 4, 2, 0},
	NetUnreachable:  {"net_unreachable", 3, 0, 1, 0},
	HostUnreachable: {"host_unreachable", 3, 1, 1, 3},
	Prohibited:      {"prohibited", 3, 13, 1, 1},
	PortUnreachable: {"port_unreachable", 3, 3, 1, 4},
}

// String returns the name of the kind, as metrics show it.
func (k ErrorKind) String() string { return errorForms[k].name }

// The maximum lengths of an ICMP error in bytes, IP header included: RFC 1812 section
// 4.3.2.3 and RFC 4443 section 2.4 (c).
const (
	maxICMPv4ErrorLen = 576
	maxICMPv6ErrorLen = 1280
	MaxICMPErrorLen   = maxICMPv6ErrorLen
)

// MinIPv6MTU is the smallest IPv6 MTU in bytes (RFC 8200 section 5).
const MinIPv6MTU = 1280

const (
	errorTTL = 64
	errorTOS = 0xc0 // internetwork control, RFC 1812 section 4.3.2.5
)

// AppendICMPError appends an IP packet to dst: the ICMP error from address from to the
// source of b. It quotes as much of b as fits. b must be unchanged since it was received,
// and MayAnswer must hold for it. from is of the same family. mtu is used for TooBig only:
// the largest IP packet in bytes that would have fitted; smaller values than MinIPv4MTU or
// MinIPv6MTU are announced as that.
//
// dst must not overlap b. The function does not allocate if dst has MaxICMPErrorLen bytes
// of spare capacity.
func AppendICMPError(dst []byte, kind ErrorKind, mtu int, from netip.Addr, b []byte, ip *IP) []byte {
	if ip.Version == 4 {
		return appendICMPv4Error(dst, kind, mtu, from, b[:ip.Len], ip.Src)
	}
	return appendICMPv6Error(dst, kind, mtu, from, b[:ip.Len], ip.Src)
}

func appendICMPv4Error(dst []byte, kind ErrorKind, mtu int, from netip.Addr, quote []byte, to netip.Addr) []byte {
	quote = quote[:min(len(quote), maxICMPv4ErrorLen-IPv4HeaderLen-ICMPHeaderLen)]
	form := &errorForms[kind]
	dst = appendIPv4(dst, errorTOS, ICMPHeaderLen+len(quote), ProtoICMP, errorTTL, from, to)

	message := len(dst)
	dst = append(dst, form.type4, form.code4, 0, 0, 0, 0, 0, 0)
	if kind == TooBig { // RFC 1191 section 4
		binary.BigEndian.PutUint16(dst[message+6:], uint16(min(max(mtu, MinIPv4MTU), MaxLen)))
	}
	dst = append(dst, quote...)
	binary.BigEndian.PutUint16(dst[message+2:], ^Sum(dst[message:], 0))
	return dst
}

func appendICMPv6Error(dst []byte, kind ErrorKind, mtu int, from netip.Addr, quote []byte, to netip.Addr) []byte {
	quote = quote[:min(len(quote), maxICMPv6ErrorLen-IPv6HeaderLen-ICMPHeaderLen)]
	form := &errorForms[kind]
	dst = appendIPv6(dst, errorTOS, ICMPHeaderLen+len(quote), ProtoICMPv6, errorTTL, from, to)

	message := len(dst)
	dst = append(dst, form.type6, form.code6, 0, 0, 0, 0, 0, 0)
	if kind == TooBig { // RFC 4443 section 3.2
		binary.BigEndian.PutUint32(dst[message+4:], uint32(max(mtu, MinIPv6MTU)))
	}
	dst = append(dst, quote...)
	sum := PseudoSum(from, to, ProtoICMPv6, len(dst)-message)
	binary.BigEndian.PutUint16(dst[message+2:], ^Sum(dst[message:], sum))
	return dst
}

// icmpv6Redirect is not an error type, but no error may be sent about a redirect: RFC
// 4443 section 2.4 (e.2).
const icmpv6Redirect = 137

// MayAnswer reports whether an ICMP error may be sent about b: RFC 1122 section 3.2.2,
// RFC 1812 section 4.3.2.7, RFC 4443 section 2.4 (e). No error is sent about ICMP errors,
// later fragments and packets to more than one host, nor to a source that is not one host.
// RFC 4443 would allow Packet Too Big about a multicast packet, but this gateway forwards
// no multicast.
func MayAnswer(b []byte, ip *IP) bool {
	if ip.Fragment == LaterFragment || !oneHost(ip.Src) || ip.Src.IsLoopback() || ip.Src.IsUnspecified() || !oneHost(ip.Dst) {
		return false
	}
	switch {
	case ip.Version == 4 && ip.Proto == ProtoICMP:
		u := ip.Upper(b)
		return len(u) > 0 && isICMPv4Query(u[0])
	case ip.Version == 6 && ip.Proto == ProtoICMPv6:
		u := ip.Upper(b)
		return len(u) > 0 && u[0] >= 128 && u[0] != icmpv6Redirect
	}
	return true
}

// isICMPv4Query reports whether a type is a query or a reply: echo, router discovery,
// timestamp, information, address mask, extended echo (RFC 792, RFC 950, RFC 1256, RFC
// 8335). Any other type may be an error.
func isICMPv4Query(kind uint8) bool {
	switch kind {
	case 0, 8, 9, 10, 13, 14, 15, 16, 17, 18, 42, 43:
		return true
	}
	return false
}

// oneHost reports whether an address is neither multicast nor in IPv4's 0.0.0.0/8 (RFC
// 1122 section 3.2.1.3) or 240.0.0.0/4, which includes the broadcast address.
func oneHost(a netip.Addr) bool {
	if a.Is4() {
		first := a.As4()[0]
		return first != 0 && first < 224
	}
	return !a.IsMulticast()
}

// appendIPv4 appends an IPv4 header without options to dst. length is the payload length in
// bytes.
func appendIPv4(dst []byte, tos uint8, length int, proto, ttl uint8, src, to netip.Addr) []byte {
	start := len(dst)
	from, dest := src.As4(), to.As4()
	dst = append(dst, 0x45, tos)
	dst = binary.BigEndian.AppendUint16(dst, uint16(IPv4HeaderLen+length))
	// DF with ID 0: an atomic datagram needs no unique ID (RFC 6864 section 4.1).
	dst = append(dst, 0, 0, 0x40, 0, ttl, proto, 0, 0)
	dst = append(dst, from[:]...)
	dst = append(dst, dest[:]...)
	putIPv4Checksum(dst[start:])
	return dst
}

// appendIPv6 appends an IPv6 header without extensions to dst. length is the payload
// length in bytes.
func appendIPv6(dst []byte, class uint8, length int, proto, hopLimit uint8, src, to netip.Addr) []byte {
	from, dest := src.As16(), to.As16()
	dst = append(dst, 0x60|class>>4, class<<4, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(length))
	dst = append(dst, proto, hopLimit)
	dst = append(dst, from[:]...)
	return append(dst, dest[:]...)
}
