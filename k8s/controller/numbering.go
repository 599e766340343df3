package controller

import "net/netip"

// Nodes have indices and gateways have numbers, which must be unique in the cluster
// although nobody counts: two controllers may work at once. So both are part of the
// internal address, which a claim makes unique:
//
//	node index      the last 16 bits of its internal address    10.80.0.1   → 1
//	gateway number  the last 8 bits of its internal address     10.80.255.1 → 1
//
// For that, addresses are taken from the first 65 536 of each internal CIDR only, its
// window. Gateways have the end of it, up to 256 addresses, and nodes the rest. Where
// there are several CIDRs of a family, or addresses held in one that is no pool any
// more, an address is taken only if no other has its last bits.
//
// The family is IPv4 if there is an internal CIDR of IPv4, and else IPv6.
const (
	indexBits  = 16
	numberBits = 8
)

// nodeIndex is the index of the node that has this internal address.
func nodeIndex(a netip.Addr) int32 {
	b := a.As16()
	return int32(b[14])<<8 | int32(b[15])
}

// gatewayNumber is the number of the gateway that has this internal address.
func gatewayNumber(a netip.Addr) int32 { return int32(a.As16()[15]) }

// window is the part of an internal CIDR that addresses are taken from.
func window(pool netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(pool.Addr(), max(pool.Bits(), pool.Addr().BitLen()-indexBits))
}

// gatewayBlock is the part of a window that gateways have: a quarter of it, but no more
// than the numbers that there are.
func gatewayBlock(window netip.Prefix) netip.Prefix {
	length := window.Addr().BitLen()
	return netip.PrefixFrom(last(window), length-min(numberBits, max(hosts(window)-2, 0))).Masked()
}

// last is the highest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// sameLastBits are the addresses in blocks, other than a, whose last bits are those of a. Bits
// are whole bytes.
func sameLastBits(a netip.Addr, bits int, blocks []netip.Prefix) (all []netip.Prefix) {
	for _, block := range blocks {
		if block.Addr().Is4() != a.Is4() {
			continue
		}
		b, from := block.Addr().AsSlice(), a.AsSlice()
		copy(b[len(b)-bits/8:], from[len(b)-bits/8:])
		if similar, _ := netip.AddrFromSlice(b); similar != a && block.Contains(similar) {
			all = append(all, single(similar))
		}
	}
	return all
}
