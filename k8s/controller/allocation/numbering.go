package allocation

import (
	"net/netip"

	"strait.dev/strait/k8s/controller/cidrs"
)

// Nodes have indices and gateways have numbers, which must be unique in the cluster without
// a central counter: two controllers may work at once. So both are part of the internal
// address, which a claim makes unique:
//
//	node index      the last 16 bits of its internal address    10.80.0.1   → 1
//	gateway number  the last 8 bits of its internal address     10.80.255.1 → 1
//
// For this, addresses are allocated only from the first 65 536 addresses of each internal
// CIDR, its window. Gateways use the end of the window, up to 256 addresses, and nodes the
// rest. If there are several CIDRs of an IP family, or held addresses outside of the pools,
// an address is allocated only if no other has the same low-order bits.
//
// The family is IPv4 if there is an internal CIDR of IPv4, and else IPv6.
const (
	indexBits  = 16
	numberBits = 8
)

// NodeIndex returns the index of the node with this internal address.
func NodeIndex(a netip.Addr) int32 {
	b := a.As16()
	return int32(b[14])<<8 | int32(b[15])
}

// GatewayNumber returns the number of the gateway with this internal address.
func GatewayNumber(a netip.Addr) int32 { return int32(a.As16()[15]) }

// window returns the part of an internal CIDR that addresses are allocated from.
func window(pool netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(pool.Addr(), max(pool.Bits(), pool.Addr().BitLen()-indexBits))
}

// gatewayBlock returns the part of a window that is used for gateways: a quarter of it, but
// at most one address per gateway number.
func gatewayBlock(window netip.Prefix) netip.Prefix {
	length := window.Addr().BitLen()
	return netip.PrefixFrom(last(window), length-min(numberBits, max(cidrs.HostBits(window)-2, 0))).Masked()
}

func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// sameLastBits returns the addresses in blocks, other than a, with the same low-order bits
// as a. bits is a multiple of 8.
func sameLastBits(a netip.Addr, bits int, blocks []netip.Prefix) (all []netip.Prefix) {
	for _, block := range blocks {
		if block.Addr().Is4() != a.Is4() {
			continue
		}
		b, from := block.Addr().AsSlice(), a.AsSlice()
		copy(b[len(b)-bits/8:], from[len(b)-bits/8:])
		if similar, _ := netip.AddrFromSlice(b); similar != a && block.Contains(similar) {
			all = append(all, cidrs.Single(similar))
		}
	}
	return all
}
