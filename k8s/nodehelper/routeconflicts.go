package nodehelper

import (
	"fmt"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/node"
)

// The maximum number of conflicts in the API, and the maximum length of a destination.
const (
	maxConflicts   = 256
	maxDestination = 256
)

// conflict adds what the kernel reported about mapped CIDRs. Withdrawn CIDRs are no problem
// of any Peering.
func (o *output) conflict(with []node.Takeover) {
	for _, t := range with {
		name, mapped := o.owners[t.Prefix]
		if !mapped {
			continue
		}
		o.conflicts = append(o.conflicts, t)
		o.problems = append(o.problems, fmt.Sprintf("Peering %s: %s; map the remote CIDR to another CIDR with seenAs, or remove the other route (STRAIT-N013)", name, t))
	}
}

func routeConflicts(all []node.Takeover) (published []v1alpha1.RouteConflict) {
	for _, t := range all[:min(len(all), maxConflicts)] {
		published = append(published, v1alpha1.RouteConflict{
			CIDR: v1alpha1.CIDR(t.Prefix.String()), Destination: client.Clip(t.Destination, maxDestination), Refused: t.Refused,
		})
	}
	return published
}
