package node

import (
	"fmt"
	"net/netip"
	"slices"
)

// model is a kernel in memory, with the relevant side effects of removing a link, an
// address or a MAC address. It rejects what a kernel rejects.
type model struct{ State }

func (m *model) at(name string) (*Link, error) {
	i := slices.IndexFunc(m.Links, func(l Link) bool { return l.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no link %s", name)
	}
	return &m.Links[i], nil
}

func (m *model) addLink(l Link) error {
	for _, other := range m.Links {
		if other.Name == l.Name {
			return fmt.Errorf("link %s exists", l.Name)
		}
		if other.Encapsulation == Userspace || other.Encapsulation != l.Encapsulation || other.VNI != l.VNI || other.Port != l.Port {
			continue
		}
		if l.Encapsulation == Geneve && other.Underlay == l.Underlay {
			return fmt.Errorf("links %s and %s have VNI %d and remote %s", l.Name, other.Name, l.VNI, l.Underlay)
		}
	}
	added := Link{Name: l.Name, Encapsulation: l.Encapsulation, MAC: l.MAC, MTU: l.MTU}
	if l.Encapsulation != Userspace {
		added.VNI, added.Port, added.Underlay = l.VNI, l.Port, l.Underlay
	}
	m.Links = append(m.Links, added)
	return nil
}

func (m *model) serve(l Link) error {
	there, err := m.at(l.Name)
	if err != nil {
		return err
	}
	if there.Encapsulation != Userspace {
		return fmt.Errorf("link %s is no TAP device", l.Name)
	}
	there.VNI, there.Port, there.Underlay = l.VNI, l.Port, l.Underlay
	return nil
}

func (m *model) deleteLink(name string) error {
	if _, err := m.at(name); err != nil {
		return err
	}
	m.Links = slices.DeleteFunc(m.Links, func(l Link) bool { return l.Name == name })
	m.linkGone(name)
	return nil
}

// linkGone deletes what the kernel deletes with a link, or when it goes down.
func (m *model) linkGone(name string) {
	for _, n := range slices.Clone(m.Nexthops) {
		if n.Link == name {
			_ = m.deleteNexthop(n.ID)
		}
	}
	routes := m.Routes
	m.Routes = nil
	for _, r := range routes {
		left := slices.DeleteFunc(slices.Clone(r.Hops), func(h Hop) bool { return h.Link == name })
		if len(r.Hops) == 0 || len(left) > 0 {
			r.Hops = left
			m.Routes = append(m.Routes, r)
		}
	}
}

func (m *model) setNexthop(n Nexthop) error {
	if m.Multipath {
		return fmt.Errorf("nexthop %s: not supported", n)
	}
	if slices.Contains(m.Foreign, n.ID) {
		return fmt.Errorf("nexthop %s exists", n)
	}
	if l, err := m.at(n.Link); err != nil || !l.Up {
		return fmt.Errorf("nexthop %s: the link is down or does not exist", n)
	}
	m.Nexthops = append(slices.DeleteFunc(m.Nexthops, func(o Nexthop) bool { return o.ID == n.ID }), n)
	return nil
}

func (m *model) setGroup(g NexthopGroup) error {
	if m.Multipath {
		return fmt.Errorf("nexthop %s: not supported", g)
	}
	if slices.Contains(m.Foreign, g.ID) {
		return fmt.Errorf("nexthop %s exists", g)
	}
	for _, id := range g.Members {
		if !slices.ContainsFunc(m.Nexthops, func(n Nexthop) bool { return n.ID == id }) {
			return fmt.Errorf("nexthop %s: %d does not exist", g, id)
		}
	}
	m.Groups = append(slices.DeleteFunc(m.Groups, func(o NexthopGroup) bool { return o.ID == g.ID }), g)
	return nil
}

func (m *model) deleteNexthop(id uint32) error {
	m.Nexthops = slices.DeleteFunc(m.Nexthops, func(n Nexthop) bool { return n.ID == id })
	for _, g := range slices.Clone(m.Groups) {
		left := slices.DeleteFunc(slices.Clone(g.Members), func(member uint32) bool { return member == id })
		m.Groups = slices.DeleteFunc(m.Groups, func(o NexthopGroup) bool { return o.ID == g.ID })
		if g.ID != id && len(left) > 0 {
			m.Groups = append(m.Groups, NexthopGroup{g.ID, left})
			continue
		}
		m.Routes = slices.DeleteFunc(m.Routes, func(r KernelRoute) bool { return r.Group == g.ID })
	}
	return nil
}

func (m *model) change(name string, f func(*Link)) error {
	l, err := m.at(name)
	if err == nil {
		f(l)
	}
	return err
}

func (m *model) setMAC(name string, mac MAC) error {
	return m.change(name, func(l *Link) { l.MAC, l.Neighbours = mac, nil })
}

func (m *model) setMTU(name string, mtu int) error {
	return m.change(name, func(l *Link) { l.MTU = mtu })
}

func (m *model) setLoose(name string) error {
	return m.change(name, func(l *Link) { l.Loose = true })
}

func (m *model) setUp(name string) error {
	return m.change(name, func(l *Link) { l.Up = true })
}

func (m *model) addAddress(name string, a netip.Addr) error {
	return m.change(name, func(l *Link) { l.Addresses = append(l.Addresses, a) })
}

func (m *model) deleteAddress(name string, a netip.Addr) error {
	if err := m.change(name, func(l *Link) {
		l.Addresses = slices.DeleteFunc(slices.Clone(l.Addresses), func(b netip.Addr) bool { return a == b })
	}); err != nil || m.local(a) {
		return err
	}
	m.Routes = slices.DeleteFunc(m.Routes, func(r KernelRoute) bool { return r.Source == a })
	return nil
}

func (m *model) local(a netip.Addr) bool {
	return slices.ContainsFunc(m.Links, func(l Link) bool { return slices.Contains(l.Addresses, a) })
}

func (m *model) setNeighbour(name string, n Neighbour) error {
	return m.change(name, func(l *Link) {
		l.Neighbours = slices.DeleteFunc(slices.Clone(l.Neighbours), func(o Neighbour) bool { return o.Address == n.Address })
		l.Neighbours = append(l.Neighbours, n)
	})
}

func (m *model) deleteNeighbour(name string, n Neighbour) error {
	return m.change(name, func(l *Link) {
		l.Neighbours = slices.DeleteFunc(slices.Clone(l.Neighbours), func(o Neighbour) bool { return o.Address == n.Address })
	})
}

func (m *model) setForwarding(name string, f Forwarding) error {
	return m.change(name, func(l *Link) {
		l.Forwarding = slices.DeleteFunc(slices.Clone(l.Forwarding), func(o Forwarding) bool { return o.MAC == f.MAC })
		l.Forwarding = append(l.Forwarding, f)
	})
}

func (m *model) deleteForwarding(name string, f Forwarding) error {
	return m.change(name, func(l *Link) {
		l.Forwarding = slices.DeleteFunc(slices.Clone(l.Forwarding), func(o Forwarding) bool { return o.MAC == f.MAC })
	})
}

func (m *model) setRoute(r KernelRoute) error {
	for _, h := range r.Hops {
		if l, err := m.at(h.Link); err != nil || !l.Up {
			return fmt.Errorf("route %s: link %s is down or does not exist", r, h.Link)
		}
	}
	if r.Group != 0 && !slices.ContainsFunc(m.Groups, func(g NexthopGroup) bool { return g.ID == r.Group }) {
		return fmt.Errorf("route %s: there is no such nexthop", r)
	}
	if !r.blackhole() && !m.local(r.Source) {
		return fmt.Errorf("route %s: the source is not local", r)
	}
	m.Routes = slices.DeleteFunc(m.Routes, func(o KernelRoute) bool { return o.key() == r.key() })
	m.Routes = append(m.Routes, r)
	return nil
}

func (m *model) deleteRoute(r KernelRoute) error {
	m.Routes = slices.DeleteFunc(m.Routes, func(o KernelRoute) bool { return o.key() == r.key() })
	return nil
}

func (m *model) addRule(f family) error    { m.Rules[f] = true; return nil }
func (m *model) deleteRule(f family) error { m.Rules[f] = false; return nil }
func (m *model) setTable(t Table) error    { m.Table = t.fingerprint(); return nil }
func (m *model) deleteTable() error        { m.Table = ""; return nil }

// fenced reports whether packets to a prefix either leave by a link of Strait or are
// dropped.
func (m *model) fenced(p netip.Prefix) bool {
	return m.Rules[familyOf(p.Addr())] && slices.ContainsFunc(m.Routes, func(r KernelRoute) bool { return r.Prefix == p })
}

// served reports whether packets to a prefix reach a gateway, whichever their flow is.
func (m *model) served(p netip.Prefix) bool {
	i := slices.IndexFunc(m.Routes, func(r KernelRoute) bool { return r.Prefix == p && !r.blackhole() })
	if i < 0 || !m.Rules[familyOf(p.Addr())] || !m.local(m.Routes[i].Source) {
		return false
	}
	hops := m.hops(m.Routes[i])
	return len(hops) > 0 && !slices.ContainsFunc(hops, func(h Hop) bool { return !m.reaches(h) })
}

// hops returns the next hops of a route.
func (m *model) hops(r KernelRoute) []Hop {
	if r.Group == 0 {
		return r.Hops
	}
	return hopsOf(r.Group, m.Nexthops, m.Groups)
}

// reaches reports whether packets to a next hop reach its gateway.
func (m *model) reaches(h Hop) bool {
	l, err := m.at(h.Link)
	if err != nil || !l.Up || !l.Loose {
		return false
	}
	j := slices.IndexFunc(l.Neighbours, func(n Neighbour) bool { return n.Address == h.Via })
	if j < 0 {
		return false
	}
	if l.Encapsulation == Userspace {
		return l.Underlay.IsValid()
	}
	return l.Encapsulation == Geneve || slices.ContainsFunc(l.Forwarding, func(f Forwarding) bool { return f.MAC == l.Neighbours[j].MAC })
}

func (m *model) clone() *model {
	s := m.State
	s.Links, s.Routes = slices.Clone(s.Links), slices.Clone(s.Routes)
	s.Nexthops, s.Groups, s.Foreign = slices.Clone(s.Nexthops), slices.Clone(s.Groups), slices.Clone(s.Foreign)
	return &model{s}
}

// observe returns the state as Kernel.Observe does.
func (m *model) observe() State {
	c := m.clone()
	for i, l := range c.Links {
		c.Links[i].Addresses, c.Links[i].Neighbours, c.Links[i].Forwarding = slices.Clone(l.Addresses), slices.Clone(l.Neighbours), slices.Clone(l.Forwarding)
	}
	c.sort()
	return c.State
}
