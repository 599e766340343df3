package nat

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// Endpoint is one end of a flow: an address and a port (TCP, UDP) or the identifier of an
// ICMP query. It is a plain, comparable value.
//
// In an ICMP query only the requesting end has an identifier, and the Port of the other end
// is 0. So endpoints are enough to distinguish a request from a reply.
type Endpoint struct {
	Addr netip.Addr // never 4in6, never with a zone
	Port uint16
}

func (e Endpoint) String() string { return netip.AddrPortFrom(e.Addr, e.Port).String() }

// Offsets in upper-layer headers. TCP (RFC 9293 section 3.1) and UDP (RFC 768) have the
// same ports; ICMP and ICMPv6 echo (RFC 792, RFC 4443 section 4.1) the same identifier.
const (
	sourcePort      = 0
	destinationPort = 2
	echoID          = 4
	tcpFlagsAt      = 13

	noPort = -1 // this end has no port
)

// ICMP types of echo messages: RFC 792, RFC 4443 section 4.
const (
	echoReply     = 0
	echoRequest   = 8
	echoRequestV6 = 128
	echoReplyV6   = 129
)

// Source returns the endpoint that b comes from. b is a packet, or one that an ICMP error
// quotes, with ip as filled by packet.Parse or packet.ParseQuote. The Port of an echo reply
// is 0.
//
// ok is false for packets that Masquerade does not support: protocols other than TCP, UDP
// and ICMP echo, later fragments, and headers cut short before the port.
func Source(b []byte, ip *packet.IP) (e Endpoint, ok bool) {
	u := ip.Upper(b)
	from, _, ok := portsAt(u, ip)
	return Endpoint{ip.Src, portAt(u, from)}, ok
}

// Destination returns the endpoint that b goes to, under the conditions of Source. The Port
// of an echo request is 0.
func Destination(b []byte, ip *packet.IP) (e Endpoint, ok bool) {
	u := ip.Upper(b)
	_, to, ok := portsAt(u, ip)
	return Endpoint{ip.Dst, portAt(u, to)}, ok
}

// TCPFlags returns the flags of a TCP header (RFC 9293 section 3.1), as an argument of
// Masquerade. It returns 0 for other protocols, later fragments and headers cut short, which
// the Replace functions do not accept either.
func TCPFlags(b []byte, ip *packet.IP) uint8 {
	u := ip.Upper(b)
	if ip.Proto != packet.ProtoTCP || len(u) <= tcpFlagsAt {
		return 0
	}
	return u[tcpFlagsAt]
}

// portsAt returns the offsets of the source and destination ports in the upper-layer header
// u, noPort for an end without a port. ok is false when u contains no ports.
func portsAt(u []byte, ip *packet.IP) (source, destination int, ok bool) {
	switch ip.Proto {
	case packet.ProtoTCP, packet.ProtoUDP:
		return sourcePort, destinationPort, len(u) >= destinationPort+2
	case packet.ProtoICMP, packet.ProtoICMPv6:
		if len(u) < echoID+2 || (ip.Proto == packet.ProtoICMP) != (ip.Version == 4) {
			return noPort, noPort, false
		}
		switch {
		case ip.Version == 4 && u[0] == echoRequest, ip.Version == 6 && u[0] == echoRequestV6:
			return echoID, noPort, true
		case ip.Version == 4 && u[0] == echoReply, ip.Version == 6 && u[0] == echoReplyV6:
			return noPort, echoID, true
		}
	}
	return noPort, noPort, false
}

func portAt(u []byte, at int) uint16 {
	if at == noPort || len(u) < at+2 {
		return 0
	}
	return binary.BigEndian.Uint16(u[at:])
}
