package controller

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// maxUnconfirmed is how many nodes are named that do not send to a peering's gateways.
const maxUnconfirmed = 3

// routes are the nodes as one peering sees them.
type routes struct {
	nodes       int      // that confirm a gateway which is up
	unconfirmed []string // the first of the others, each with the reason

	confirmed, reported, why string // of the node that is counted: its name, and what it says of a gateway
}

// routesTo counts the nodes for each peering with a gateway that is up. Up has the
// peerings of those, by the names of gateways. Each attachment is looked at once,
// whatever the number of peerings.
func routesTo(up map[string]string, attachments []*v1alpha1.NodeAttachment) map[string]*routes {
	all := make(map[string]*routes)
	for _, peering := range up {
		all[peering] = new(routes)
	}
	for _, a := range attachments {
		for _, g := range a.Status.Gateways {
			r := all[up[g.Name]]
			switch {
			case r == nil:
			case g.Ready && r.confirmed != a.Name:
				r.confirmed = a.Name
				r.nodes++
			case !g.Ready && r.reported != a.Name:
				r.reported, r.why = a.Name, g.Message
			}
		}
		for _, r := range all {
			if r.confirmed != a.Name && len(r.unconfirmed) < maxUnconfirmed {
				r.unconfirmed = append(r.unconfirmed, a.Name+": "+r.reason(a.Name))
			}
		}
	}
	for _, r := range all {
		r.confirmed, r.reported, r.why = "", "", ""
	}
	return all
}

// reason is why a node does not confirm.
func (r *routes) reason(node string) string {
	if r.reported == node && r.why != "" {
		return r.why
	}
	return "its helper has not said anything of the gateway yet; see whether `strait node` runs there"
}

// routed is the condition Routed.
func (r *report) routed(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus) metav1.Condition {
	ranges := r.remotes[peering.Name].Ranges()
	seen := slices.Concat(s.Prefixes, s.ExternalPrefixes)
	for _, one := range ranges {
		if !slices.ContainsFunc(seen, func(p v1alpha1.SeenPrefix) bool { return p.CIDR == one.CIDR }) {
			return condition(metav1.ConditionFalse, "NotSeen", "%s is not seen in this cluster; the condition CIDRConflict says why", one.CIDR)
		}
	}
	to := r.routes[peering.Name]
	switch {
	case len(ranges) == 0:
		return condition(metav1.ConditionFalse, "NoRanges", "no range of the remote cluster is known; write its ranges to spec.prefixes, or grant in spec.acceptPrefixes what it may announce")
	case to == nil:
		return condition(metav1.ConditionFalse, "NoLink", "no gateway has a link that is up, so that nodes have nobody to send to; the condition TunnelUp says why")
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
			text += "; see whether nodes have an InternalIP"
		}
		return condition(metav1.ConditionFalse, "NoNode", "%s", text)
	}
	return condition(metav1.ConditionTrue, "NodesSend", "%s", text)
}
