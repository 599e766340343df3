//go:build linux

package node

import "net/netip"

// family is an IP version.
type family uint8

const (
	ipv4 family = iota
	ipv6
)

var families = []family{ipv4, ipv6}

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return ipv4
	}
	return ipv6
}

func (f family) String() string {
	if f == ipv4 {
		return "IPv4"
	}
	return "IPv6"
}

// of returns the first address of the family, or the zero Addr.
func (f family) of(addresses []netip.Addr) netip.Addr {
	for _, a := range addresses {
		if familyOf(a) == f {
			return a
		}
	}
	return netip.Addr{}
}

// host returns the prefix that contains only a.
func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }
