//go:build linux

package node

import "slices"

// Plan returns the operations that bring a kernel from the observed to the desired state,
// which must be valid. Routes that would take over a destination of another program are
// left out; see Takeover. The order of the operations loses and leaks no packet:
//
//  1. blackholes for every prefix, and the rules that lead to them
//  2. the nftables table: source addresses, and what is accepted from gateways
//  3. new links, configured completely, then set up
//  4. nexthops, groups and routes, each replaced atomically
//  5. removal of unneeded routes, groups, nexthops, links, blackholes and rules
func Plan(d Desired, observed State) []Operation {
	if d.Nothing {
		return Removal(observed)
	}
	d = d.withoutRefused(observed)
	p := &planner{want: target(d, observed), have: observed, broken: map[string]bool{}}
	p.fence()
	if p.have.Table != p.want.Table {
		p.add(setTable(d.table()))
	}
	for _, l := range p.want.Links {
		p.link(l)
	}
	p.overlay()
	p.clear()
	return p.operations
}

// Removal returns the operations that remove all of Strait's configuration from a kernel.
func Removal(observed State) []Operation {
	p := &planner{have: observed}
	p.clear()
	if observed.Table != "" {
		p.add(deleteTable())
	}
	return p.operations
}

type planner struct {
	want, have State
	operations []Operation
	broken     map[string]bool // links that are deleted and added again
}

func (p *planner) add(o ...Operation) { p.operations = append(p.operations, o...) }

func (p *planner) fence() {
	for _, r := range p.want.Routes {
		if r.blackhole() && !slices.ContainsFunc(p.have.Routes, r.equal) {
			p.add(setRoute(r))
		}
	}
	for _, f := range families {
		if p.want.Rules[f] && !p.have.Rules[f] {
			p.add(addRule(f))
		}
	}
}

// link configures one link as wanted.
func (p *planner) link(want Link) {
	have, there := p.find(want.Name)
	if there && !have.becomes(want) {
		p.add(deleteLink(want.Name))
		p.broken[want.Name] = true
		there = false
	}
	if !there {
		p.add(addLink(want))
		have = Link{MAC: want.MAC, MTU: want.MTU}
	}
	if want.Encapsulation == Userspace && !have.goes(want) {
		p.add(serve(want))
	}
	if have.MAC != want.MAC {
		p.add(setMAC(want))
		have.Neighbours = nil
	}
	if have.MTU != want.MTU {
		p.add(setMTU(want))
	}
	if !have.Loose {
		p.add(setLoose(want.Name))
	}
	for _, f := range want.Forwarding {
		if !slices.Contains(have.Forwarding, f) {
			p.add(setForwarding(want.Name, f))
		}
	}
	for _, a := range want.Addresses {
		if !slices.Contains(have.Addresses, a) {
			p.add(addAddress(want.Name, a))
		}
	}
	for _, n := range want.Neighbours {
		if !slices.Contains(have.Neighbours, n) {
			p.add(setNeighbour(want.Name, n))
		}
	}
	if !have.Up {
		p.add(setUp(want.Name))
	}
}

// becomes reports whether a link can be changed into the wanted one in place.
func (l Link) becomes(want Link) bool {
	return l.Encapsulation == want.Encapsulation && (l.Encapsulation == Userspace || l.goes(want))
}

// goes reports whether a link has the destination of the wanted one.
func (l Link) goes(want Link) bool {
	return l.VNI == want.VNI && l.Port == want.Port && l.Underlay == want.Underlay
}

func (p *planner) find(link string) (Link, bool) {
	i := slices.IndexFunc(p.have.Links, func(l Link) bool { return l.Name == link })
	if i < 0 {
		return Link{}, false
	}
	return p.have.Links[i], true
}

// overlay sets nexthops, groups and routes. The kernel has deleted the nexthops of broken links,
// groups without a nexthop left, and their routes.
func (p *planner) overlay() {
	lost := map[uint32]bool{}
	for _, n := range p.have.Nexthops {
		lost[n.ID] = p.broken[n.Link]
	}
	for _, n := range p.want.Nexthops {
		if lost[n.ID] || !slices.Contains(p.have.Nexthops, n) {
			p.add(setNexthop(n))
		}
	}
	for _, g := range p.have.Groups {
		lost[g.ID] = !slices.ContainsFunc(g.Members, func(id uint32) bool { return !lost[id] })
	}
	for _, g := range p.want.Groups {
		if slices.ContainsFunc(g.Members, func(id uint32) bool { return lost[id] }) || !slices.ContainsFunc(p.have.Groups, g.equal) {
			p.add(setGroup(g))
		}
	}
	for _, r := range p.want.Routes {
		gone := lost[r.Group] || slices.ContainsFunc(r.Hops, func(h Hop) bool { return p.broken[h.Link] })
		if !r.blackhole() && (gone || !slices.ContainsFunc(p.have.Routes, r.equal)) {
			p.add(setRoute(r))
		}
	}
}

// clear removes unneeded objects, blackholes after the routes before them.
func (p *planner) clear() {
	wanted := map[routeKey]bool{}
	for _, r := range p.want.Routes {
		wanted[r.key()] = true
	}
	var blackholes []Operation
	for _, r := range p.have.Routes {
		switch {
		case wanted[r.key()]:
		case r.blackhole():
			blackholes = append(blackholes, deleteRoute(r))
		default:
			p.add(deleteRoute(r))
		}
	}
	for _, g := range p.have.Groups {
		if !slices.ContainsFunc(p.want.Groups, func(w NexthopGroup) bool { return w.ID == g.ID }) {
			p.add(deleteNexthop(g.ID))
		}
	}
	for _, n := range p.have.Nexthops {
		if !slices.ContainsFunc(p.want.Nexthops, func(w Nexthop) bool { return w.ID == n.ID }) {
			p.add(deleteNexthop(n.ID))
		}
	}
	for _, l := range p.have.Links {
		i := slices.IndexFunc(p.want.Links, func(w Link) bool { return w.Name == l.Name })
		if i < 0 {
			p.add(deleteLink(l.Name))
		} else if !p.broken[l.Name] {
			p.clearLink(l, p.want.Links[i])
		}
	}
	p.add(blackholes...)
	for _, f := range families {
		if p.have.Rules[f] && !p.want.Rules[f] {
			p.add(deleteRule(f))
		}
	}
}

func (p *planner) clearLink(have, want Link) {
	for _, a := range have.Addresses {
		if !slices.Contains(want.Addresses, a) {
			p.add(deleteAddress(have.Name, a))
		}
	}
	for _, n := range have.Neighbours {
		if want.neighbour(familyOf(n.Address)) != n.Address {
			p.add(deleteNeighbour(have.Name, n))
		}
	}
	for _, f := range have.Forwarding {
		if !slices.ContainsFunc(want.Forwarding, func(w Forwarding) bool { return w.MAC == f.MAC }) {
			p.add(deleteForwarding(have.Name, f))
		}
	}
}
