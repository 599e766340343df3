package demo

import (
	"encoding/binary"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"strait.dev/strait/packet"
)

// echo is an echo request that must not be fragmented.
type echo struct {
	from, to     netip.Addr
	id, sequence uint16
	ttl          uint8
	length       int // bytes of the IP packet
}

const (
	pingLength = 84 // as ping sends over IPv4: 56 bytes after the headers
	pingTTL    = 64
)

func (e *echo) packet() []byte {
	b := make([]byte, e.length)
	src, dst := tcpip.AddrFromSlice(e.from.AsSlice()), tcpip.AddrFromSlice(e.to.AsSlice())
	if e.from.Is4() {
		ip := header.IPv4(b)
		ip.Encode(&header.IPv4Fields{
			TotalLength: uint16(e.length), Flags: header.IPv4FlagDontFragment,
			TTL: e.ttl, Protocol: packet.ProtoICMP, SrcAddr: src, DstAddr: dst,
		})
		ip.SetChecksum(^ip.CalculateChecksum())
		m := header.ICMPv4(b[packet.IPv4HeaderLen:])
		m.SetType(header.ICMPv4Echo)
		m.SetIdent(e.id)
		m.SetSequence(e.sequence)
		m.SetChecksum(header.ICMPv4Checksum(m, 0))
		return b
	}
	header.IPv6(b).Encode(&header.IPv6Fields{
		PayloadLength:     uint16(e.length - packet.IPv6HeaderLen),
		TransportProtocol: header.ICMPv6ProtocolNumber, HopLimit: e.ttl, SrcAddr: src, DstAddr: dst,
	})
	m := header.ICMPv6(b[packet.IPv6HeaderLen:])
	m.SetType(header.ICMPv6EchoRequest)
	m.SetIdent(e.id)
	m.SetSequence(e.sequence)
	m.SetChecksum(header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: m, Src: src, Dst: dst}))
	return b
}

// concerns reports whether a message answers the request or is an error about it.
func (e *echo) concerns(m *message) bool {
	return (m.what == echoReply || m.isError) && echoNumbers(m.body) == [2]uint16{e.id, e.sequence}
}

func echoNumbers(icmp []byte) (n [2]uint16) {
	if len(icmp) >= packet.ICMPHeaderLen {
		n[0], n[1] = binary.BigEndian.Uint16(icmp[4:]), binary.BigEndian.Uint16(icmp[6:])
	}
	return n
}
