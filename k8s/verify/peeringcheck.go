package verify

import (
	"context"
	"fmt"

	"strait.dev/strait/k8s/operator"
)

// peeringCheck returns the state of a Peering from the objects of a cluster, and whether
// any of its links is up.
func peeringCheck(ctx context.Context, c operator.Cluster, name string) (is Check, up bool, err error) {
	report, err := operator.ReadReport(ctx, c, []string{name})
	if err != nil {
		return is, false, err
	}
	is, up = judgePeering(string(report.ClusterID), report.Peerings[0])
	return is, up, nil
}

// judgePeering evaluates the report of a peering.
func judgePeering(cluster string, p operator.PeeringReport) (is Check, up bool) {
	links := 0
	for _, l := range p.Links {
		if l.Up {
			links++
		}
	}
	is = Check{Group: OfPeering, From: cluster, What: "Peering " + p.Name + " is ready", Outcome: Passed, Detail: fmt.Sprintf("%d of %d links up", links, len(p.Links))}
	if !p.Ready {
		is.Outcome, is.Detail = Failed, p.Missing
		is.Cause, is.Remedy = "the peering is not ready", "run strait status for the missing stage"
	}
	return is, links > 0
}
