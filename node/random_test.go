package node

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
)

// randomDesired returns a valid state from a set so small that two states have much in
// common.
func randomDesired(r *rand.Rand) Desired {
	d := Desired{Pods: prefixes("10.0.0.0/16")[:r.IntN(2)], LocalPods: prefixes("10.0.1.0/24")[:r.IntN(2)]}
	d.Addresses = [][]netip.Addr{addrs("10.80.0.11"), addrs("10.80.0.12", "fd00:80::12"), addrs("fd00:80::11")}[r.IntN(3)]
	geneve := []Encapsulation{Geneve, Userspace}[r.IntN(2)] // never both: they need the same port
	for i := range r.IntN(4) {
		d.Gateways = append(d.Gateways, Gateway{
			Name:          fmt.Sprint("gateway-", i),
			Underlay:      addrs("192.0.2.10", "192.0.2.11", "2001:db8::10")[r.IntN(3)],
			Addresses:     [][]netip.Addr{addrs(fmt.Sprint("10.80.0.", i+1)), addrs(fmt.Sprint("10.80.0.", i+1), fmt.Sprint("fd00:80::", i+1))}[r.IntN(2)],
			VNI:           uint32(257 + i),
			Encapsulation: []Encapsulation{geneve, VXLAN}[r.IntN(2)],
			MTU:           []int{1200, 1300, 1420}[r.IntN(3)],
			Remote:        prefixes("10.71.0.0/16")[:r.IntN(2)],
			LocalNodes:    r.IntN(2) == 0,
		})
	}
	for i := range r.IntN(3) {
		g := Group{Name: fmt.Sprint("group-", i), MTU: []int{1200, 1300}[r.IntN(2)]}
		for _, gateway := range d.Gateways {
			if r.IntN(2) == 0 {
				g.Gateways = append(g.Gateways, gateway.Name)
			}
		}
		d.Groups = append(d.Groups, g)
	}
	for _, p := range prefixes("10.71.0.0/16", "10.72.0.0/16", "fd00:71::/48") {
		switch n := r.IntN(len(d.Groups) + 2); {
		case n < len(d.Groups):
			d.Routes = append(d.Routes, Route{p, d.Groups[n].Name})
		case n == len(d.Groups):
			d.Routes = append(d.Routes, Route{Prefix: p})
		}
	}
	if err := d.Validate(); err != nil {
		panic(err)
	}
	return d
}

// damage changes a kernel as other programs might.
func damage(r *rand.Rand, m *model) {
	for range r.IntN(4) {
		if len(m.Links) > 0 {
			i := r.IntN(len(m.Links))
			l := &m.Links[i]
			switch r.IntN(11) {
			case 0:
				_ = m.deleteLink(l.Name)
			case 1:
				l.Up = false
				m.linkGone(l.Name)
			case 2:
				l.MTU = 1000
			case 3:
				_ = m.setMAC(l.Name, MAC{2})
			case 4:
				l.Loose = false
			case 5:
				_ = m.setNeighbour(l.Name, Neighbour{netip.MustParseAddr("10.80.0.1"), MAC{2}})
			case 6:
				_ = m.setForwarding(l.Name, Forwarding{MAC{2}, netip.MustParseAddr("192.0.2.99")})
			case 7:
				l.Addresses = append(slices.Clone(l.Addresses), netip.MustParseAddr("10.80.9.9"))
			case 9:
				l.VNI += 1000 // and a link like Strait's, with Strait's routes
			case 10:
				if l.Encapsulation == Userspace { // served by another process
					l.VNI, l.Port, l.Underlay = 0, 0, netip.Addr{}
				}
			case 8:
				*l = Link{Name: l.Name, Up: true, MTU: 1500} // replaced by a dummy of that name
				m.linkGone(l.Name)
			}
		}
		switch r.IntN(9) {
		case 4:
			if len(m.Nexthops) > 0 {
				_ = m.deleteNexthop(m.Nexthops[r.IntN(len(m.Nexthops))].ID)
			}
		case 5:
			if len(m.Groups) > 0 {
				_ = m.deleteNexthop(m.Groups[r.IntN(len(m.Groups))].ID)
			}
		case 6:
			if len(m.Groups) > 0 && len(m.Nexthops) > 0 {
				m.Groups[r.IntN(len(m.Groups))].Members = []uint32{m.Nexthops[r.IntN(len(m.Nexthops))].ID}
			}
		case 7: // another program takes an ID that Strait may want
			id := nexthopIDs | uint32(257+r.IntN(4))
			if !slices.ContainsFunc(m.Nexthops, func(n Nexthop) bool { return n.ID == id }) && !slices.Contains(m.Foreign, id) {
				m.Foreign = append(m.Foreign, id)
			}
		case 0:
			if len(m.Routes) > 0 {
				i := r.IntN(len(m.Routes))
				m.Routes = slices.Delete(m.Routes, i, i+1)
			}
		case 1:
			m.Rules[r.IntN(2)] = false
		case 2:
			m.Table = "damaged"
		case 3:
			m.Routes = append(m.Routes, KernelRoute{Prefix: netip.MustParsePrefix("10.99.0.0/16"), Metric: metricBlackhole})
		}
	}
}
