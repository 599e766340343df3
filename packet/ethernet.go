package packet

import (
	"encoding/binary"
	"net/netip"
)

// MAC is an Ethernet address.
type MAC [6]byte

// MACOf derives the Ethernet address of an internal address: 0a:58 (locally
// administered, unicast) and the four bytes of an IPv4 address, or the last four of an
// IPv6 address. Both ends of the overlay can compute each other's address without ARP.
// IPv6 addresses that differ only in their first 12 bytes share one Ethernet address.
func MACOf(a netip.Addr) MAC {
	if a.Is4() {
		b := a.As4()
		return MAC{0x0a, 0x58, b[0], b[1], b[2], b[3]}
	}
	b := a.As16()
	return MAC{0x0a, 0x58, b[12], b[13], b[14], b[15]}
}

// isStation reports whether m can be the address of one station: neither a group
// address nor all zero.
func (m MAC) isStation() bool { return m[0]&1 == 0 && m != MAC{} }

// The Ethernet II header: destination, source, type.
//
//	+--------+--------+--------+--------+--------+--------+
//	|                     Destination                     |
//	+--------+--------+--------+--------+--------+--------+
//	|                       Source                        |
//	+--------+--------+--------+--------+--------+--------+
//	|    EtherType    |
//	+--------+--------+
const (
	EthernetHeaderLen = 14

	EtherTypeIPv4 = 0x0800
	EtherTypeARP  = 0x0806
	EtherTypeIPv6 = 0x86dd

	ethernetSource = 6
	ethernetType   = 12
)

// PutEthernet writes an Ethernet header to the first EthernetHeaderLen bytes of b.
func PutEthernet(b []byte, dst, src MAC, etherType uint16) {
	b = b[:EthernetHeaderLen]
	copy(b, dst[:])
	copy(b[ethernetSource:], src[:])
	binary.BigEndian.PutUint16(b[ethernetType:], etherType)
}

// ParseEthernet splits a frame. payload aliases frame and includes the sender's padding.
// ok is false when the header is cut short. VLAN tags are not parsed: their EtherType is
// returned as it is.
func ParseEthernet(frame []byte) (dst, src MAC, etherType uint16, payload []byte, ok bool) {
	if len(frame) < EthernetHeaderLen {
		return MAC{}, MAC{}, 0, nil, false
	}
	return MAC(frame), MAC(frame[ethernetSource:]), binary.BigEndian.Uint16(frame[ethernetType:]), frame[EthernetHeaderLen:], true
}
