package demo

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/gateway"
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
	b := gateway.Probe{Protocol: gateway.ICMP, Source: e.from, Destination: e.to, TTL: e.ttl, Size: e.length}.Packet()
	header := packet.IPv4HeaderLen
	if e.from.Is6() {
		header = packet.IPv6HeaderLen
	}
	icmp := b[header:]
	sum := binary.BigEndian.Uint16(icmp[2:])
	for at, number := range map[int]uint16{4: e.id, 6: e.sequence} {
		sum = packet.Update(sum, packet.DeltaOf(binary.BigEndian.Uint16(icmp[at:]), number))
		binary.BigEndian.PutUint16(icmp[at:], number)
	}
	binary.BigEndian.PutUint16(icmp[2:], sum)
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
