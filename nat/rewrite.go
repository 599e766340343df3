package nat

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// Offsets in the fixed headers (RFC 791 section 3.1, RFC 8200 section 3).
const (
	ipv4Checksum = 10
	ipv4Src      = 12
	ipv4Dst      = 16
	ipv6Src      = 8
	ipv6Dst      = 24

	icmpChecksum = 2 // in the ICMP and ICMPv6 header
)

// Rewrite translates the source of b by src and its destination by dst; nil leaves that
// address unchanged. ip, which Parse filled from b, is updated. The addresses must be in the
// From prefixes of the maps.
//
// It reports false, with b unchanged, when the upper-layer checksum that depends on the
// addresses lies beyond the packet's end.
func Rewrite(b []byte, ip *packet.IP, src, dst *Map) bool {
	var d packet.Delta
	if src != nil {
		d = src.delta
	}
	if dst != nil {
		d = d.Plus(dst.delta)
	}
	if !packet.UpdateAddresses(b, ip, d) {
		return false
	}
	if src != nil {
		ip.Src = src.Translate(ip.Src)
	}
	if dst != nil {
		ip.Dst = dst.Translate(ip.Dst)
	}
	putAddresses(b, ip, d)
	return true
}

// RewriteQuote translates the packet that an ICMP error quotes. b and ip are the error, quote
// and q the quoted packet within b as returned by packet.ParseQuote. src and dst translate the
// source and destination of the quoted packet.
//
// A quote may be truncated anywhere after its IP header: a checksum that is cut off is not
// updated. The error's own checksum is updated (RFC 5508 section 4.2).
func RewriteQuote(b []byte, ip *packet.IP, quote []byte, q *packet.IP, src, dst *Map) {
	edited := quote[:min(len(quote), int(q.Header)+packet.TCPHeaderLen)]
	before := packet.Sum(edited, 0)

	var d packet.Delta
	if src != nil {
		d = src.delta
		q.Src = src.Translate(q.Src)
	}
	if dst != nil {
		d = d.Plus(dst.delta)
		q.Dst = dst.Translate(q.Dst)
	}
	if q.Fragment != packet.LaterFragment {
		packet.UpdateUpper(quote[q.Header:], q.Proto, d)
	}
	putAddresses(quote, q, d)

	field := b[int(ip.Header)+icmpChecksum:]
	change := packet.DeltaOf(before, packet.Sum(edited, 0))
	binary.BigEndian.PutUint16(field, packet.Update(binary.BigEndian.Uint16(field), change))
}

// putAddresses writes the addresses of ip into b and updates the IPv4 header checksum.
func putAddresses(b []byte, ip *packet.IP, d packet.Delta) {
	if ip.Version == 4 {
		put4(b[ipv4Src:], ip.Src)
		put4(b[ipv4Dst:], ip.Dst)
		field := b[ipv4Checksum:]
		binary.BigEndian.PutUint16(field, packet.Update(binary.BigEndian.Uint16(field), d))
		return
	}
	put16(b[ipv6Src:], ip.Src)
	put16(b[ipv6Dst:], ip.Dst)
}

func put4(b []byte, a netip.Addr)  { v := a.As4(); copy(b, v[:]) }
func put16(b []byte, a netip.Addr) { v := a.As16(); copy(b, v[:]) }
