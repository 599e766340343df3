package nat

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// ReplaceSource sets the source of b to to, and updates ip, which packet.Parse filled from b.
// The port or identifier changes too if the packet has one at that end (see Source). For ICMP
// errors, later fragments and other protocols only the address changes. Checksums are updated
// (RFC 1624).
//
// It reports false, with b unchanged, when the header is cut short before the port or
// checksum to change. to must be of the packet's own family.
func ReplaceSource(b []byte, ip *packet.IP, to Endpoint) bool {
	from, _, _ := portsAt(ip.Upper(b), ip)
	d := addressDelta(ip.Src, to)
	if !replaceUpper(ip.Upper(b), ip, d, from, to.Port) {
		return false
	}
	ip.Src = to.Addr
	putAddresses(b, ip, d)
	return true
}

// ReplaceDestination sets the destination of b to to, like ReplaceSource.
func ReplaceDestination(b []byte, ip *packet.IP, to Endpoint) bool {
	_, at, _ := portsAt(ip.Upper(b), ip)
	d := addressDelta(ip.Dst, to)
	if !replaceUpper(ip.Upper(b), ip, d, at, to.Port) {
		return false
	}
	ip.Dst = to.Addr
	putAddresses(b, ip, d)
	return true
}

// ReplaceQuotedSource sets the source of the packet that an ICMP error quotes. b and ip are
// the error, quote and q the quoted packet within b as returned by packet.ParseQuote; q is
// updated. The quote may be truncated anywhere after its IP header: a port or checksum that
// is cut off is not changed. The error's own checksum is updated (RFC 5508 section 4.2).
func ReplaceQuotedSource(b []byte, ip *packet.IP, quote []byte, q *packet.IP, to Endpoint) {
	from, _, _ := portsAt(q.Upper(quote), q)
	d := addressDelta(q.Src, to)
	q.Src = to.Addr
	replaceQuoted(b, ip, quote, q, d, from, to.Port)
}

// ReplaceQuotedDestination sets the destination of the packet that an ICMP error quotes,
// like ReplaceQuotedSource.
func ReplaceQuotedDestination(b []byte, ip *packet.IP, quote []byte, q *packet.IP, to Endpoint) {
	_, at, _ := portsAt(q.Upper(quote), q)
	d := addressDelta(q.Dst, to)
	q.Dst = to.Addr
	replaceQuoted(b, ip, quote, q, d, at, to.Port)
}

// replaceQuoted writes the addresses of q, and the port, into a quote, and updates the
// checksum of the ICMP error.
func replaceQuoted(b []byte, ip *packet.IP, quote []byte, q *packet.IP, d packet.Delta, at int, port uint16) {
	edited := quote[:min(len(quote), int(q.Header)+packet.TCPHeaderLen)]
	before := packet.Sum(edited, 0)

	u := q.Upper(quote)
	switch {
	case at == noPort || len(u) < at+2:
		packet.UpdateUpper(u, q.Proto, d)
	case !replaceUpper(u, q, d, at, port):
		putPort(u, at, port) // the checksum behind it is cut off
	}
	putAddresses(quote, q, d)

	field := b[int(ip.Header)+icmpChecksum:]
	change := packet.DeltaOf(before, packet.Sum(edited, 0))
	binary.BigEndian.PutUint16(field, packet.Update(binary.BigEndian.Uint16(field), change))
}

// replaceUpper writes a port into the upper-layer header u and updates its checksum, also for
// a change d of the addresses. It reports false, with u unchanged, when the port or checksum
// is cut off.
func replaceUpper(u []byte, ip *packet.IP, d packet.Delta, at int, port uint16) bool {
	if ip.Fragment == packet.LaterFragment {
		return true
	}
	if at == noPort {
		return len(u) >= minUpper(ip.Proto) && packet.UpdateUpper(u, ip.Proto, d)
	}
	change := packet.DeltaOf(portAt(u, at), port)
	if ip.Proto == packet.ProtoICMP { // the checksum covers no addresses; portsAt has checked the length
		field := u[icmpChecksum:]
		binary.BigEndian.PutUint16(field, packet.Update(binary.BigEndian.Uint16(field), change))
	} else if !packet.UpdateUpper(u, ip.Proto, d.Plus(change)) {
		return false
	}
	putPort(u, at, port)
	return true
}

// minUpper returns the number of bytes of an upper-layer header needed to know that an end
// has no port, 0 for protocols without ports.
func minUpper(proto uint8) int {
	switch proto {
	case packet.ProtoTCP, packet.ProtoUDP:
		return destinationPort + 2
	case packet.ProtoICMP, packet.ProtoICMPv6:
		return echoID + 2
	}
	return 0
}

func putPort(u []byte, at int, port uint16) { binary.BigEndian.PutUint16(u[at:], port) }

// addressDelta returns the change from an address to that of an endpoint.
func addressDelta(from netip.Addr, to Endpoint) packet.Delta {
	return packet.DeltaOf(packet.SumAddr(from), packet.SumAddr(to.Addr))
}
