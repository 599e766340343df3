package nodehelper

import (
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
)

// input is what the helper knows. Objects belong to the caches and are not changed.
type input struct {
	attachment *v1alpha1.NodeAttachment // nil: there is none
	network    *v1alpha1.ClusterNetwork // nil: there is none
	peerings   []*v1alpha1.Peering
	support    node.Support

	sources map[netip.Addr]netip.Addr // of frames to gateways, by their underlay addresses, as far as known
	answers map[string]bool           // gateways that answer, by name
	serving map[string]string         // the gateway that serves a peering so far, by name of the peering
}

// output is what follows from it.
type output struct {
	desired  node.Desired
	gateways []gateway         // by name
	serving  map[string]string // as in input
	problems []string          // ranges that are left out, and why
	reserved reservedPrefixes  // what means something now
	gone     bool              // nothing is desired, and nothing is left
}

// gateway is one that the node is to have a link to.
type gateway struct {
	node.Gateway
	source  netip.Addr // that its frames come from, where that is none of the node's underlay addresses
	problem string     // why it has none; empty: it has
	note    string     // why it is not one of the kernel; empty: it is
}

// probe is the address that tells whether the gateway answers.
func (g gateway) probe(d node.Desired) netip.Addr {
	for _, theirs := range g.Addresses {
		if slices.ContainsFunc(d.Addresses, func(ours netip.Addr) bool { return ours.Is4() == theirs.Is4() }) {
			return theirs
		}
	}
	return netip.Addr{}
}

// addresses parses addresses of objects. What is none is left out.
func addresses(texts []v1alpha1.IP) (all []netip.Addr) {
	for _, text := range texts {
		if a, err := netip.ParseAddr(string(text)); err == nil {
			all = append(all, a)
		}
	}
	return all
}

// ranges parses ranges of objects. What is none is left out.
func ranges(texts []v1alpha1.CIDR) (all []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(string(text)); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}
