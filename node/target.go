//go:build linux

package node

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// target returns the state that implements a valid d on a kernel.
func target(d Desired, observed State) State {
	s := State{Table: d.table().fingerprint(), Foreign: observed.Foreign, Multipath: observed.Multipath}
	for _, g := range d.Gateways {
		link := d.link(g)
		s.Links = append(s.Links, link)
		for _, n := range link.Neighbours {
			s.Routes = append(s.Routes, KernelRoute{
				Prefix: host(n.Address), Metric: metricOverlay,
				Hops: []Hop{{Link: link.Name}}, Source: familyOf(n.Address).of(d.Addresses), MTU: g.MTU,
			})
		}
	}
	hops, groups, ids := d.nexthops(observed.Foreign)
	if !s.Multipath {
		s.Nexthops, s.Groups = hops, groups
	}
	mtus := map[string]int{}
	for _, g := range d.Groups {
		mtus[g.Name] = g.MTU
	}
	for _, r := range d.Routes {
		s.Routes = append(s.Routes, KernelRoute{Prefix: r.Prefix, Metric: metricBlackhole})
		f := familyOf(r.Prefix.Addr())
		s.Rules[f] = true
		id, has := ids[groupKey{r.Group, f}]
		if !has {
			continue
		}
		route := KernelRoute{Prefix: r.Prefix, Metric: metricOverlay, Group: id, Source: f.of(d.Addresses), MTU: f.mtu(mtus[r.Group])}
		if s.Multipath {
			route.Group, route.Hops = 0, hopsOf(id, hops, groups)
		}
		s.Routes = append(s.Routes, route)
	}
	for _, a := range d.Addresses {
		s.Rules[familyOf(a)] = true
	}
	s.sort()
	return s
}

// link returns the device for a gateway. It has the families of which both ends have an
// address and that the MTU allows.
func (d Desired) link(g Gateway) Link {
	l := Link{
		Name: g.Link(), Encapsulation: g.Encapsulation,
		VNI: g.VNI, Port: g.Encapsulation.port(),
		MAC: macOf(d.Addresses), MTU: g.MTU, Loose: true, Up: true,
	}
	if g.Encapsulation == VXLAN {
		l.Forwarding = []Forwarding{{macOf(g.Addresses), g.Underlay}}
	} else {
		l.Underlay = g.Underlay
	}
	for _, f := range families {
		ours, theirs := f.of(d.Addresses), f.of(g.Addresses)
		if !ours.IsValid() || !theirs.IsValid() || f == ipv6 && g.MTU < minMTU6 {
			continue
		}
		l.Addresses = append(l.Addresses, ours)
		l.Neighbours = append(l.Neighbours, Neighbour{theirs, macOf(g.Addresses)})
	}
	return l
}

// Link returns the name of the node's link to the gateway.
func (g Gateway) Link() string { return linkName(g.Encapsulation, g.VNI, g.Underlay) }

// linkName hashes what the kernel requires to be unique among links of a type. For Geneve
// that is the VNI with the remote address, which cannot change without losing packets. For
// VXLAN it is the VNI with the family of the remote address; the address changes in place.
// For a TAP device the kernel requires nothing, and the VNI identifies it. The kernel accepts
// names of 15 bytes, which leave 25 bits for the hash: among 256 links, two have the same name
// with a probability of 0.1 %.
func linkName(e Encapsulation, vni uint32, underlay netip.Addr) string {
	remote := underlay.String()
	switch e {
	case VXLAN:
		remote = familyOf(underlay).String()
	case Userspace:
		remote = ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s", e, vni, remote))
	return LinkPrefix + strings.ToLower(base32.HexEncoding.EncodeToString(sum[:5]))[:5]
}

func hopsOf(id uint32, hops []Nexthop, groups []NexthopGroup) (of []Hop) {
	g := groups[slices.IndexFunc(groups, func(g NexthopGroup) bool { return g.ID == id })]
	for _, n := range hops {
		if slices.Contains(g.Members, n.ID) {
			of = append(of, n.Hop)
		}
	}
	sortHops(of)
	return of
}

// mtu returns the MTU of routes to a group. IPv6 packets reach only those of its gateways that
// have the MTU which IPv6 requires.
func (f family) mtu(ofGroup int) int {
	if f == ipv6 {
		return max(ofGroup, minMTU6)
	}
	return ofGroup
}

// neighbour is the link's gateway in a family, or the zero Addr.
func (l Link) neighbour(f family) netip.Addr {
	for _, n := range l.Neighbours {
		if familyOf(n.Address) == f {
			return n.Address
		}
	}
	return netip.Addr{}
}

// sort sorts a state as its type documents.
func (s *State) sort() {
	slices.SortFunc(s.Links, func(a, b Link) int { return cmp.Compare(a.Name, b.Name) })
	for i := range s.Links {
		slices.SortFunc(s.Links[i].Addresses, netip.Addr.Compare)
		slices.SortFunc(s.Links[i].Neighbours, func(a, b Neighbour) int { return a.Address.Compare(b.Address) })
		slices.SortFunc(s.Links[i].Forwarding, func(a, b Forwarding) int { return bytes.Compare(a.MAC[:], b.MAC[:]) })
	}
	slices.SortFunc(s.Nexthops, func(a, b Nexthop) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortFunc(s.Groups, func(a, b NexthopGroup) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(s.Foreign)
	slices.SortFunc(s.Routes, func(a, b KernelRoute) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.Metric, b.Metric))
	})
}
