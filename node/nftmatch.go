package node

import (
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// ourLinks matches packets whose link, by the key IIFNAME or OIFNAME, is one of Strait's.
func ourLinks(key expr.MetaKey) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte(LinkPrefix)}, // a shorter value than the name: a prefix match
	}
}

// match matches packets of the family.
func (f family) match() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{byte(f.number())}}, // NFPROTO_* are AF_*
	}
}

// size returns the size of an address in bytes.
func (f family) size() uint32 {
	if f == ipv6 {
		return 16
	}
	return 4
}

// source loads the source address of a packet into register 1: RFC 791, section 3.1; RFC 8200,
// section 3.
func (f family) source() expr.Any {
	offset := uint32(12)
	if f == ipv6 {
		offset = 8
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.size()}
}

// destination loads the destination address of a packet into register 1.
func (f family) destination() expr.Any {
	offset := uint32(16)
	if f == ipv6 {
		offset = 24
	}
	return &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.size()}
}

func (f family) keyType() nftables.SetDatatype {
	if f == ipv6 {
		return nftables.TypeIP6Addr
	}
	return nftables.TypeIPAddr
}

// intervals returns the elements of an interval set: the first address of each range of
// adjacent prefixes, and the first one after it. all is sorted and without overlaps.
func (f family) intervals(all []netip.Prefix) (elements []nftables.SetElement) {
	after := netip.Addr{} // the end of the range before; the zero Addr: none, or the end of all addresses
	end := func() {
		if after.IsValid() {
			elements = append(elements, nftables.SetElement{Key: after.AsSlice(), IntervalEnd: true})
		}
	}
	for _, p := range all {
		if familyOf(p.Addr()) != f {
			continue
		}
		if p.Addr() != after {
			end()
			elements = append(elements, nftables.SetElement{Key: p.Addr().AsSlice()})
		}
		after = lastOf(p).Next()
	}
	end()
	return elements
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	b := slices.Clone(p.Addr().AsSlice())
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
