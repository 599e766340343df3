//go:build linux

package node

import (
	"net"
	"net/netip"

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

// within matches packets whose address, which load puts into register 1, is in a prefix.
func within(load expr.Any, p netip.Prefix) []expr.Any {
	f := familyOf(p.Addr())
	match := append(f.match(), load)
	if !p.IsSingleIP() {
		match = append(match, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: f.size(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()), Xor: make([]byte, f.size())})
	}
	return append(match, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()})
}
