package config

import (
	"fmt"
	"net/netip"

	"github.com/gaissmai/bart"
)

// ranges checks that no inner address or prefix has two meanings in this cluster.
func (c *checker) ranges(g *Gateway) {
	r := &ranges{checker: c, hosts: make(map[netip.Addr]*place, 4*len(g.Overlay.Nodes))}
	for i := range g.Overlay.Nodes {
		r.pods(root("overlay").field("nodes").item(i).field("prefixes"), g.Overlay.Nodes[i].Prefixes)
	}
	r.grants(root("local").field("prefixes"), g.Local.Prefixes, &r.taken)
	r.grants(root("local").field("externalPrefixes"), g.Local.ExternalPrefixes, &r.taken, &r.external)

	r.host(root("overlay"), g.Overlay.Addresses, g.Overlay.ExternalAddresses)
	for i := range g.Overlay.Nodes {
		n, at := &g.Overlay.Nodes[i], root("overlay").field("nodes").item(i)
		r.host(at, n.Addresses, n.ExternalAddresses)
		r.pairs(at.field("externalAddresses"), n.Addresses, n.ExternalAddresses)
	}
	r.mappings(root("mappings"), g.Mappings)
	r.remote(root("remote").field("prefixes"), g.Remote.Prefixes)
	r.proxy(root("proxy"), &g.Proxy, g.Local.Prefixes)
	r.forwards(root("forwards"), g)
	r.callers(root("callers"), &g.Callers, len(g.Forwards))
}

// ranges are the addresses and prefixes checked so far.
type ranges struct {
	*checker
	hosts    map[netip.Addr]*place // internal and external addresses, of nodes and gateway
	behind   bart.Table[*place]    // prefixes of nodes
	external bart.Table[*place]    // local.externalPrefixes
	taken    bart.Table[*place]    // all prefixes in use in this cluster
	cidrs    bart.Table[*place]    // remote prefixes, in the remote cluster
	seen     bart.Table[*place]    // remote prefixes, as seen by this cluster
}

// pods checks the prefixes behind a node. Nested prefixes are valid: the longest wins.
func (r *ranges) pods(list *place, prefixes []netip.Prefix) {
	for i, p := range prefixes {
		at := list.item(i)
		if !r.prefix(at, p) {
			continue
		}
		if other, twice := r.behind.Get(p); twice {
			r.add(at, "keep it at the node where these pods run", "%s is already in %s", p, other)
			continue
		}
		r.behind.Insert(p, at)
		r.taken.Insert(p, at)
	}
}

// grants checks the prefixes that the remote cluster may reach.
func (r *ranges) grants(list *place, prefixes []netip.Prefix, into ...*bart.Table[*place]) {
	for i, p := range prefixes {
		if at := list.item(i); r.prefix(at, p) {
			for _, table := range into {
				table.Insert(p, at)
			}
		}
	}
}

// host checks the addresses of the gateway or of a node.
func (r *ranges) host(owner *place, internal, external []netip.Addr) {
	if len(internal) == 0 {
		r.add(owner.field("addresses"), "give at least one internal address", "missing")
	}
	for i, a := range internal {
		if at := owner.field("addresses").item(i); r.own(at, a) {
			r.taken.Insert(netip.PrefixFrom(a, a.BitLen()), at)
		}
	}
	for i, a := range external {
		at := owner.field("externalAddresses").item(i)
		if r.own(at, a) && !r.external.Contains(a) {
			r.add(at, "choose one from local.externalPrefixes, or add its prefix there", "%s is in none of local.externalPrefixes", a)
		}
	}
}

// own checks one address of a host, which must be unique.
func (r *ranges) own(at *place, a netip.Addr) bool {
	if !r.address(at, a) {
		return false
	}
	if other := r.hosts[a]; other != nil {
		r.add(at, "give each an address of its own", "%s is already in %s", a, other)
		return false
	}
	r.hosts[a] = at
	if p, other, ok := r.behind.LookupPrefixLPM(netip.PrefixFrom(a, a.BitLen())); ok {
		r.add(at, "choose one outside of all pod prefixes", "%s lies in %s of %s", a, p, other)
		return false
	}
	return true
}

// pairs checks that every external address of a node has an internal one of its family.
func (r *ranges) pairs(at *place, internal, external []netip.Addr) {
	left := make(map[bool]int, 2) // internal addresses without an external one, by being IPv4
	for _, a := range internal {
		left[a.Unmap().Is4()]++
	}
	for i, a := range external {
		is4 := a.Unmap().Is4()
		if left[is4]--; a.IsValid() && left[is4] < 0 {
			r.add(at.item(i), "remove it, or give the node another internal address of that family", "%s has no internal address to stand for", a)
		}
	}
}

// remote checks the prefixes of the remote cluster and how they are seen here.
func (r *ranges) remote(at *place, prefixes []RemotePrefix) {
	for i, p := range prefixes {
		cidr, seenAs := at.item(i).field("cidr"), at.item(i).field("seenAs")
		cidrOK := r.prefix(cidr, p.CIDR)
		if cidrOK {
			r.disjoint(cidr, p.CIDR, &r.cidrs, "name each range of the remote cluster once")
			r.cidrs.Insert(p.CIDR, cidr)
		}
		if p.SeenAs == p.CIDR && !cidrOK {
			continue // a duplicate
		}
		if !r.prefix(seenAs, p.SeenAs) {
			continue
		}
		if cidrOK && (p.CIDR.Bits() != p.SeenAs.Bits() || p.CIDR.Addr().Is4() != p.SeenAs.Addr().Is4()) {
			r.add(seenAs, "use a range of the family and length of cidr", "%s cannot stand for %s one to one", p.SeenAs, p.CIDR)
		}
		const remedy = "choose a range that is free in this cluster"
		if r.disjoint(seenAs, p.SeenAs, &r.taken, remedy) {
			r.disjoint(seenAs, p.SeenAs, &r.seen, remedy)
		}
		r.seen.Insert(p.SeenAs, seenAs)
	}
}

// disjoint checks that a prefix overlaps none in a table.
func (r *ranges) disjoint(at *place, p netip.Prefix, table *bart.Table[*place], remedy string) bool {
	other, owner, overlap := table.LookupPrefixLPM(p)
	if !overlap {
		for other, owner = range table.Subnets(p) {
			overlap = true
			break
		}
	}
	if overlap {
		r.add(at, remedy, "%s overlaps %s of %s", p, other, owner)
	}
	return !overlap
}

// The widest prefixes accepted: no cluster has more, and a typing error must not take over half of the internet.
const (
	widestV4 = 8
	widestV6 = 16
)

// canonical checks the form of a prefix of any addresses. remedy is for a missing one.
func (c *checker) canonical(at *place, p netip.Prefix, remedy string) bool {
	switch {
	case !p.IsValid():
		c.add(at, remedy, "missing")
	case p.Addr().Is4In6():
		c.add(at, "write the IPv4 prefix", "%s is an IPv4 prefix in IPv6 form", p)
	case p != p.Masked():
		c.add(at, "write "+p.Masked().String(), "%s has host bits set", p)
	default:
		return true
	}
	return false
}

// prefix checks one prefix alone.
func (c *checker) prefix(at *place, p netip.Prefix) bool {
	if !c.canonical(at, p, "write a prefix like 10.0.0.0/16 or fd00:10::/48") {
		return false
	}
	widest := widestV6
	if p.Addr().Is4() {
		widest = widestV4
	}
	if p.Bits() < widest {
		c.add(at, fmt.Sprintf("use /%d or longer", widest), "%s is too wide", p)
		return false
	}
	return c.ordinary(at, p, p)
}

// address checks one inner address alone.
func (c *checker) address(at *place, a netip.Addr) bool {
	switch {
	case !a.IsValid():
		c.add(at, "write an address like 10.80.0.11 or fd00:80::11", "missing")
	case a.Is4In6():
		c.add(at, "write "+a.Unmap().String(), "%s is an IPv4 address in IPv6 form", a)
	case a.Zone() != "":
		c.add(at, "write the address alone", "%s has a zone", a)
	default:
		return c.ordinary(at, netip.PrefixFrom(a, a.BitLen()), a)
	}
	return false
}

// classE is reserved (RFC 1112 section 4) and contains the broadcast address.
var classE = netip.MustParsePrefix("240.0.0.0/4")

// special are prefixes that never appear as a host's address beyond one link.
var special = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{classE, "reserved"},
	{netip.MustParsePrefix("::/127"), "unspecified or loopback"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

// ordinary checks that a prefix, printed as shown, contains no special address.
func (c *checker) ordinary(at *place, p netip.Prefix, shown fmt.Stringer) bool {
	for _, s := range special {
		if s.prefix.Overlaps(p) {
			c.add(at, "choose ordinary unicast addresses", "%s is %s", shown, s.what)
			return false
		}
	}
	return true
}
