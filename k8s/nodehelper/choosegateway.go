package nodehelper

import (
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// chooseGateway returns the gateway that a peering's packets are routed to, empty if there
// is none or the peering is being deleted. The preference is: a gateway that answers and
// has a link to the remote cluster that is up, then one that answers, then any, because a
// gateway that does not answer may still forward. Among equals the current gateway is kept.
func (t *translation) chooseGateway(p *v1alpha1.Peering) string {
	if p.DeletionTimestamp != nil {
		return ""
	}
	best, bestRank := "", 0
	for _, g := range t.out.gateways {
		if g.problem != "" || !slices.ContainsFunc(p.Status.Gateways, func(s v1alpha1.GatewayStatus) bool { return s.Name == g.Name }) {
			continue
		}
		rank := 2
		if t.answers[g.Name] {
			rank = 4
			if slices.ContainsFunc(p.Status.Links, func(l v1alpha1.LinkStatus) bool { return l.Local == g.Name && l.Up }) {
				rank = 6
			}
		}
		if g.Name == t.serving[p.Name] {
			rank++
		}
		if rank > bestRank {
			best, bestRank = g.Name, rank
		}
	}
	return best
}
