package nodehelper

import (
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/nodeprobe"
)

// chooseGateway returns the gateway that a peering's packets are routed to, empty if there
// is none or the peering is being deleted. The gateways' own answers decide. Among equals
// the current gateway is kept.
func (t *translation) chooseGateway(p *v1alpha1.Peering) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	best, bestRank := "", 0
	for _, g := range t.out.gateways {
		if g.problem != "" || !slices.ContainsFunc(p.Status.Gateways, func(s v1alpha1.GatewayStatus) bool { return s.Name == g.Name }) {
			continue
		}
		rank := 2 * t.preference(g.Name)
		if g.Name == t.serving[p.Name] {
			rank++
		}
		if rank > bestRank {
			best, bestRank = g.Name, rank
		}
	}
	return best
}

// preference ranks a gateway by its last answer, 1 is the lowest.
func (t *translation) preference(name string) int {
	state, answers := t.answers[name]
	switch {
	case !answers:
		return 1 // it may still forward
	case state == nodeprobe.NoLinks:
		return 2
	case state == nodeprobe.Leaving:
		return 3 // it forwards for some seconds more
	case state == nodeprobe.LinksUp:
		return 5
	}
	return 4 // unknown: it is of an earlier version
}
