package nat

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"strait.dev/strait/packet"
)

// words is an address as stored in tables: IPv4 as 4in6, which no packet contains.
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

// is4 reports whether the address is an IPv4 address.
func (w words) is4() bool { return w.hi == 0 && w.lo>>32 == 0xffff }

// kind is a protocol as stored in tables. Each kind has its own ports.
type kind uint8

const (
	kindTCP kind = iota
	kindUDP
	kindICMP // of either family
	kinds
)

// kindOf returns the kind of a packet between two addresses, which must be of one family.
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

// proto returns the protocol number of a kind between addresses of the family of a.
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

// hashKey is secret, so that no sender can choose addresses and ports that collide.
type hashKey [4]uint64

func newHashKey(r *rand.Rand) (k hashKey) {
	for i := range k {
		k[i] = r.Uint64()
	}
	return k
}

// hash hashes an address and 64 more bits. Each table adds a different tag, so that the
// hashes of one table reveal nothing about another.
func (k *hashKey) hash(a words, with uint64) uint64 {
	return packet.FoldMul(packet.FoldMul(a.hi^k[0], a.lo^k[1])^k[2], with^k[3])
}
