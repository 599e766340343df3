package nat

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"strait.dev/strait/packet"
)

// words are an address as tables keep it: IPv4 as 4in6, which no packet has.
type words struct{ hi, lo uint64 }

func wordsOf(a netip.Addr) words {
	b := a.As16()
	return words{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (w words) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], w.hi)
	binary.BigEndian.PutUint64(b[8:], w.lo)
	return netip.AddrFrom16(b).Unmap()
}

// is4 reports whether the address is one of IPv4.
func (w words) is4() bool { return w.hi == 0 && w.lo>>32 == 0xffff }

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

// hashKey is a secret: with it unknown, nobody can choose addresses and ports
// that fall into one chain.
type hashKey [4]uint64

func newHashKey(r *rand.Rand) (k hashKey) {
	for i := range k {
		k[i] = r.Uint64()
	}
	return k
}

// hash mixes an address and 64 bits of whatever goes with it. What one table
// adds differs from what another adds, so that none helps to guess the other.
func (k *hashKey) hash(a words, with uint64) uint64 {
	return packet.FoldMul(packet.FoldMul(a.hi^k[0], a.lo^k[1])^k[2], with^k[3])
}
