package config

import (
	"net/netip"
	"slices"
)

func (c *checker) masquerade(g *Gateway) {
	m, section := &g.Masquerade, root("masquerade")
	for i, p := range m.Sources {
		c.source(section.field("sources").item(i), p, g.Overlay.ExternalAddresses)
	}
	flows, perSource := m.Limits()
	if flows < 1 || flows > MaxFlows {
		c.add(section.field("flows"), "use "+flowRange, "%d is not a number of flows", m.Flows)
	} else if perSource < 1 || perSource > flows {
		c.add(section.field("flowsPerSource"), "use at most as many as flows, or leave it out for a sixteenth of them",
			"%d of %d flows cannot be one source's", perSource, flows)
	}
	if len(m.Sources) > 0 {
		c.origins(g.Overlay.Nodes)
	}
}

// source checks one prefix of sources. Any width is valid, so that all sources can be allowed: local and remote prefixes
// and addresses that no host can have are never masqueraded.
func (c *checker) source(at *place, p netip.Prefix, external []netip.Addr) {
	sameFamily := func(a netip.Addr) bool { return a.Is4() == p.Addr().Is4() }
	if c.canonical(at, p, "write a prefix like 198.51.100.0/24, or 0.0.0.0/0 for all sources") && !slices.ContainsFunc(external, sameFamily) {
		c.add(at, "give the gateway an address of that family in overlay.externalAddresses", "%s has no external address to leave under", p)
	}
}

// origins checks that VNIs are unique, because a flow stores its node by the VNI.
func (c *checker) origins(nodes []Node) {
	taken := make(map[uint32]int, len(nodes))
	for i, n := range nodes {
		at := root("overlay").field("nodes").item(i)
		other, twice := taken[n.VNI]
		switch {
		case !twice:
			taken[n.VNI] = i
		case nodes[other].Underlay != n.Underlay: // otherwise reported already
			c.add(at.field("vni"), "give each node a VNI of its own, or remove masquerade.sources",
				"%d is already the VNI of overlay.nodes[%d], and flows that are masqueraded know their node by it", n.VNI, other)
		}
	}
}
