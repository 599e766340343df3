package nat

import (
	"net/netip"

	"strait.dev/strait/packet"
)

// kind is a protocol as tables keep it. Each has ports of its own.
type kind uint8

const (
	kindTCP kind = iota
	kindUDP
	kindICMP // of either family
	kinds
)

// kindOf tells the kind of a packet between two addresses, of one family.
func kindOf(proto uint8, a, b netip.Addr) (kind, bool) {
	if a.BitLen() == 0 || a.BitLen() != b.BitLen() || a.Is4In6() || b.Is4In6() {
		return 0, false
	}
	switch proto {
	case packet.ProtoTCP:
		return kindTCP, true
	case packet.ProtoUDP:
		return kindUDP, true
	case packet.ProtoICMP:
		return kindICMP, a.Is4()
	case packet.ProtoICMPv6:
		return kindICMP, a.Is6()
	}
	return 0, false
}

// proto is the protocol number of a kind between addresses like a.
func (k kind) proto(a netip.Addr) uint8 {
	switch {
	case k == kindTCP:
		return packet.ProtoTCP
	case k == kindUDP:
		return packet.ProtoUDP
	case a.Is4():
		return packet.ProtoICMP
	}
	return packet.ProtoICMPv6
}
