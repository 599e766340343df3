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

// target returns the state that implements d, which must be valid.
func target(d Desired) State {
	s := State{Sources: d.sources().fingerprint()}
	links := map[string]Link{} // by gateway name
	for _, g := range d.Gateways {
		link := d.link(g)
		links[g.Name] = link
		s.Links = append(s.Links, link)
		for _, n := range link.Neighbours {
			s.Routes = append(s.Routes, KernelRoute{
				Prefix: host(n.Address), Metric: metricOverlay,
				Link: link.Name, Source: familyOf(n.Address).of(d.Addresses), MTU: g.MTU,
			})
		}
	}
	for _, r := range d.Routes {
		s.Routes = append(s.Routes, KernelRoute{Prefix: r.Prefix, Metric: metricBlackhole})
		f := familyOf(r.Prefix.Addr())
		s.Rules[f] = true
		link := links[r.Gateway]
		if via := link.neighbour(f); via.IsValid() {
			s.Routes = append(s.Routes, KernelRoute{
				Prefix: r.Prefix, Metric: metricOverlay,
				Link: link.Name, Via: via, Source: f.of(link.Addresses), MTU: link.MTU,
			})
		}
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
		Name: linkName(g.Encapsulation, g.VNI, g.Underlay), Encapsulation: g.Encapsulation,
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
	slices.SortFunc(s.Routes, func(a, b KernelRoute) int {
		return cmp.Or(a.Prefix.Compare(b.Prefix), cmp.Compare(a.Metric, b.Metric))
	})
}
