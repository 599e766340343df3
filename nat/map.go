package nat

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"strait.dev/strait/packet"
)

// Map translates addresses of one prefix into another of equal length and keeps the host
// bits. It is a bijection; Reverse returns its inverse. Immutable and safe for concurrent
// use. The zero value must not be used.
type Map struct {
	from, to netip.Prefix

	// A result has host bits of the input (hostHi, hostLo) and network bits of toHi, toLo.
	// IPv4 uses the low 32 bits of the lo words.
	toHi, toLo     uint64
	hostHi, hostLo uint64

	// delta is the same for every address of the prefix: translation adds (to - from), and
	// one's complement sums are linear.
	delta packet.Delta
}

// NewMap pairs two prefixes. They must have the same family and length and no host bits set.
func NewMap(from, to netip.Prefix) (*Map, error) {
	switch {
	case !from.IsValid() || !to.IsValid():
		return nil, fmt.Errorf("nat: %v to %v: not a prefix", from, to)
	case from.Addr().Is4() != to.Addr().Is4() || from.Addr().Is4In6() || to.Addr().Is4In6():
		return nil, fmt.Errorf("nat: %v to %v: prefixes of different families; pair IPv4 with IPv4 and IPv6 with IPv6", from, to)
	case from.Bits() != to.Bits():
		return nil, fmt.Errorf("nat: %v to %v: lengths differ; both must be /%d", from, to, from.Bits())
	case from != from.Masked() || to != to.Masked():
		return nil, fmt.Errorf("nat: %v to %v: host bits are set; write %v and %v", from, to, from.Masked(), to.Masked())
	}
	m := &Map{from: from, to: to, delta: packet.DeltaOf(packet.SumAddr(from.Addr()), packet.SumAddr(to.Addr()))}
	if from.Addr().Is4() {
		b := to.Addr().As4()
		m.toLo = uint64(binary.BigEndian.Uint32(b[:]))
		m.hostLo = 1<<(32-from.Bits()) - 1
		return m, nil
	}
	b := to.Addr().As16()
	m.toHi, m.toLo = binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	// Shifts by 64 or more give 0 in Go, so -1 afterwards gives all ones.
	if bits := from.Bits(); bits <= 64 {
		m.hostHi, m.hostLo = 1<<(64-bits)-1, ^uint64(0)
	} else {
		m.hostLo = 1<<(128-bits) - 1
	}
	return m, nil
}

// From returns the prefix of the addresses to translate.
func (m *Map) From() netip.Prefix { return m.from }

// To returns the prefix that addresses are translated into.
func (m *Map) To() netip.Prefix { return m.to }

// Reverse returns the inverse of m.
func (m *Map) Reverse() *Map {
	r, err := NewMap(m.to, m.from)
	if err != nil {
		panic(err) // m was checked when it was made, and the conditions are symmetric
	}
	return r
}

// Translate maps an address of From. For other addresses the result is meaningless: look the
// address up first.
func (m *Map) Translate(a netip.Addr) netip.Addr {
	if a.Is4() {
		b := a.As4()
		binary.BigEndian.PutUint32(b[:], uint32(m.toLo)|binary.BigEndian.Uint32(b[:])&uint32(m.hostLo))
		return netip.AddrFrom4(b)
	}
	b := a.As16()
	binary.BigEndian.PutUint64(b[:8], m.toHi|binary.BigEndian.Uint64(b[:8])&m.hostHi)
	binary.BigEndian.PutUint64(b[8:], m.toLo|binary.BigEndian.Uint64(b[8:])&m.hostLo)
	return netip.AddrFrom16(b)
}

func (m *Map) String() string { return m.from.String() + " -> " + m.to.String() }
