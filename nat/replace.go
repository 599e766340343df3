package nat

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// ReplaceSource gives b the source to. ip is what packet.Parse said of b and is
// kept true. The port or identifier changes too where the packet has one on that
// side, see Source; ICMP errors, later fragments and other protocols have none,
// and of them the address alone changes. Checksums follow (RFC 1624).
//
// It reports false, with b untouched, when the header is cut short before the
// port or checksum that has to change. to is of the packet's own family.
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

// ReplaceDestination gives b the destination to, as ReplaceSource does with its
// source.
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

// ReplaceQuotedSource gives the packet that an ICMP error quotes the source to.
// b and ip are the error, quote and q the quoted packet within b as
// packet.ParseQuote gave them; q is kept true. The quote may be cut short
// anywhere behind its IP header: a port or checksum that is not there is not
// changed. The error's own checksum follows (RFC 5508 section 4.2).
func ReplaceQuotedSource(b []byte, ip *packet.IP, quote []byte, q *packet.IP, to Endpoint) {
	from, _, _ := portsAt(q.Upper(quote), q)
	d := addressDelta(q.Src, to)
	q.Src = to.Addr
	replaceQuoted(b, ip, quote, q, d, from, to.Port)
}

// ReplaceQuotedDestination gives the packet that an ICMP error quotes the
// destination to, as ReplaceQuotedSource does with its source.
func ReplaceQuotedDestination(b []byte, ip *packet.IP, quote []byte, q *packet.IP, to Endpoint) {
	_, at, _ := portsAt(q.Upper(quote), q)
	d := addressDelta(q.Dst, to)
	q.Dst = to.Addr
	replaceQuoted(b, ip, quote, q, d, at, to.Port)
}

// replaceQuoted writes the addresses of q, and the port, into a quote, and updates
// the checksum of the error around it.
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

// replaceUpper puts a port into the upper-layer header u and updates its checksum,
// also for a change d of the addresses. It reports false, with u untouched, when
// one of them is not there.
func replaceUpper(u []byte, ip *packet.IP, d packet.Delta, at int, port uint16) bool {
	if ip.Fragment == packet.LaterFragment {
		return true
	}
	if at == noPort {
		return len(u) >= minUpper(ip.Proto) && packet.UpdateUpper(u, ip.Proto, d)
	}
	change := packet.DeltaOf(portAt(u, at), port)
	if ip.Proto == packet.ProtoICMP { // its checksum covers no addresses; portsAt has seen what is behind it
		field := u[icmpChecksum:]
		binary.BigEndian.PutUint16(field, packet.Update(binary.BigEndian.Uint16(field), change))
	} else if !packet.UpdateUpper(u, ip.Proto, d.Plus(change)) {
		return false
	}
	putPort(u, at, port)
	return true
}

// minUpper is how many bytes of an upper-layer header must be there to know that
// it has no port on some side, 0 where it never has.
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

// addressDelta is the change from an address to that of an endpoint.
func addressDelta(from netip.Addr, to Endpoint) packet.Delta {
	return packet.DeltaOf(packet.SumAddr(from), packet.SumAddr(to.Addr))
}
