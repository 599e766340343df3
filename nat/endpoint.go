package nat

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// Endpoint is one end of a flow: an address and a port (TCP, UDP) or the
// identifier of an ICMP query. A plain, comparable value.
//
// Of an ICMP query only the asking end has an identifier, the other end's Port
// is 0: that tells a request from a reply wherever only endpoints are at hand.
type Endpoint struct {
	Addr netip.Addr // never 4in6, never with a zone
	Port uint16
}

func (e Endpoint) String() string { return netip.AddrPortFrom(e.Addr, e.Port).String() }

// Offsets in upper-layer headers: RFC 9293 section 3.1 and RFC 768 begin alike;
// RFC 792 and RFC 4443 section 4.1 have an echo's identifier at one place.
const (
	sourcePort      = 0
	destinationPort = 2
	echoID          = 4
	tcpFlagsAt      = 13

	noPort = -1 // there is none on this side
)

// ICMP types of queries: RFC 792, RFC 4443 section 4.
const (
	echoReply     = 0
	echoRequest   = 8
	echoRequestV6 = 128
	echoReplyV6   = 129
)

// Source is the end of a flow that b comes from. b may be a packet, or one that
// an ICMP error quotes, with ip as packet.Parse or packet.ParseQuote filled it.
// For an echo reply the Port is 0.
//
// ok is false where Masquerade has nothing to work with: protocols other than
// TCP, UDP and ICMP echo, later fragments, headers cut short before the port.
func Source(b []byte, ip *packet.IP) (e Endpoint, ok bool) {
	u := ip.Upper(b)
	from, _, ok := portsAt(u, ip)
	return Endpoint{ip.Src, portAt(u, from)}, ok
}

// Destination is the end of a flow that b goes to, with the limits of Source.
// For an echo request the Port is 0.
func Destination(b []byte, ip *packet.IP) (e Endpoint, ok bool) {
	u := ip.Upper(b)
	_, to, ok := portsAt(u, ip)
	return Endpoint{ip.Dst, portAt(u, to)}, ok
}

// TCPFlags are the flags of a TCP header (RFC 9293 section 3.1), as Masquerade
// wants them; 0 for other protocols, later fragments and headers cut short, which
// no Replace function accepts either.
func TCPFlags(b []byte, ip *packet.IP) uint8 {
	u := ip.Upper(b)
	if ip.Proto != packet.ProtoTCP || len(u) <= tcpFlagsAt {
		return 0
	}
	return u[tcpFlagsAt]
}

// portsAt gives the offsets in the upper-layer header u of the ports of source
// and destination, noPort where that side has none. ok is false when the packet
// has no ports at all, or not here.
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
