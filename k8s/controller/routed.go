package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/condition"
)

// maxUnconfirmed is the maximum number of nodes that are named because they do not send to
// a peering's gateways.
const maxUnconfirmed = 3

type routes struct {
	nodes       int      // nodes that reach a gateway which is up
	unconfirmed []string // the first other nodes, each with the reason
	refusing    int      // nodes that refused packets from its gateways lately
	refused     []string // the reasons, sorted
}

// routesTo counts the nodes for each peering with a gateway that is up. up maps the names
// of these gateways to their peerings. Each attachment is read once, for any number of
// peerings.
func routesTo(up map[string]string, attachments []*v1alpha1.NodeAttachment) map[string]*routes {
	all := make(map[string]*routes)
	for _, peering := range up {
		all[peering] = new(routes)
	}
	for _, a := range attachments {
		confirmed, refuses, why := make(map[*routes]bool), make(map[*routes]bool), make(map[*routes]string)
		for _, g := range a.Status.Gateways {
			r := all[up[g.Name]]
			if r == nil {
				continue
			}
			for _, reason := range g.Refused {
				refuses[r] = true
				if i, known := slices.BinarySearch(r.refused, reason); !known {
					r.refused = slices.Insert(r.refused, i, reason)
				}
			}
			if g.Ready {
				confirmed[r] = true
			} else {
				why[r] = cmp.Or(why[r], g.Message)
			}
		}
		for _, r := range all {
			if refuses[r] {
				r.refusing++
			}
			if confirmed[r] {
				r.nodes++
			} else if len(r.unconfirmed) < maxUnconfirmed {
				r.unconfirmed = append(r.unconfirmed, a.Name+": "+cmp.Or(why[r], "its node helper has not reported this gateway yet; check that `strait node` runs on the node"))
			}
		}
	}
	return all
}

// conflicts is the state of the nodes that route a destination themselves which a mapped
// CIDR overlaps.
type conflicts struct {
	refused, taken int    // nodes that do not route the CIDR; nodes whose destination it takes over
	of             string // one of them, one that refuses if there is one, with the destination

	refusedBy, takenBy string // the nodes counted last: a node may report several destinations
}

func conflictsByCIDR(attachments []*v1alpha1.NodeAttachment) map[v1alpha1.CIDR]*conflicts {
	all := make(map[v1alpha1.CIDR]*conflicts)
	for _, a := range attachments {
		for _, one := range a.Status.RouteConflicts {
			c := all[one.CIDR]
			if c == nil {
				c = new(conflicts)
				all[one.CIDR] = c
			}
			if c.of == "" || one.Refused && c.refused == 0 {
				c.of = fmt.Sprintf("%s has %s", a.Name, one.Destination)
			}
			switch {
			case one.Refused && c.refusedBy != a.Name:
				c.refusedBy = a.Name
				c.refused++
			case !one.Refused && c.takenBy != a.Name:
				c.takenBy = a.Name
				c.taken++
			}
		}
	}
	return all
}

func (r *report) routed(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus) metav1.Condition {
	ranges := r.remotes[peering.Name].Ranges()
	seen := slices.Concat(s.Prefixes, s.ExternalPrefixes)
	for _, one := range ranges {
		if !slices.ContainsFunc(seen, func(p v1alpha1.SeenPrefix) bool { return p.CIDR == one.CIDR }) {
			return condition.New(metav1.ConditionFalse, "NotMapped", "%s is not mapped in this cluster; see the condition CIDRConflict", one.CIDR)
		}
	}
	to := r.routes[peering.Name]
	switch {
	case len(ranges) == 0:
		return condition.New(metav1.ConditionFalse, "NoRanges", "no CIDR of the remote cluster is known; set its CIDRs in spec.prefixes, or grant in spec.acceptPrefixes what it may announce")
	case to == nil:
		return condition.New(metav1.ConditionFalse, "NoLink", "no gateway has a link that is up, so nodes have no gateway to send to; see the condition TunnelUp")
	}
	if r.network.WithoutNodes {
		return condition.New(metav1.ConditionTrue, "RoutedByGateways", "this cluster has no node helpers: gateways carry the connections to imported Services; %d of %d have a link",
			len(gatewaysUp(peering)), len(peering.Status.Gateways))
	}
	text := fmt.Sprintf("%d of %d nodes send to a gateway that is up", to.nodes, r.attached)
	if len(to.unconfirmed) > 0 {
		text += "; " + strings.Join(to.unconfirmed, "; ")
	}
	if more := r.attached - to.nodes - len(to.unconfirmed); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	if to.nodes == 0 {
		if r.attached == 0 {
			text += "; see the condition NodesAttached of ClusterNetwork " + v1alpha1.ClusterNetworkName
		}
		return condition.New(metav1.ConditionFalse, "NoNode", "%s", text)
	}
	for _, one := range seen {
		if c := r.conflicts[one.SeenAs]; c != nil && c.refused > 0 {
			return condition.New(metav1.ConditionFalse, "RouteRefused", "%s does not go to gateways on %d of %d nodes, because they route it themselves: %s; set seenAs of %s to another CIDR, or remove the other route (STRAIT-N013)",
				one.SeenAs, c.refused, r.attached, c.of, one.CIDR)
		}
	}
	if to.refusing > 0 {
		text += fmt.Sprintf("; within the last hour, %d of %d nodes refused packets from its gateways: %s (STRAIT-N016)", to.refusing, r.attached, strings.Join(to.refused, ", "))
	}
	for _, one := range seen {
		if c := r.conflicts[one.SeenAs]; c != nil {
			text += fmt.Sprintf("; on %d of %d nodes, %s takes over a destination that they got later: %s (STRAIT-N013)", c.taken, r.attached, one.SeenAs, c.of)
		}
	}
	return condition.New(metav1.ConditionTrue, "RoutedByNodes", "%s", text)
}
