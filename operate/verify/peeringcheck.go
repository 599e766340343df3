package verify

import (
	"context"
	"fmt"
	"time"

	"strait.dev/strait/operate/operator"
)

const (
	// settleTimeout is how long Peerings may take to become ready. While gateways start, join
	// or change keys, one that was ready is not for a moment.
	settleTimeout = 15 * time.Second
	settlePause   = 500 * time.Millisecond
)

// settled looks at the Peerings until both are ready, settleTimeout at most. It returns the
// last checks, and whether any link is up.
func settled(ctx context.Context, look func(context.Context) ([]Check, bool, error), o *Options) (checks []Check, up bool, err error) {
	late, told := time.Now().Add(settleTimeout), ""
	for {
		if checks, up, err = look(ctx); err != nil {
			return nil, false, err
		}
		missing := ""
		for _, c := range checks {
			if c.Outcome == Failed {
				missing = c.From + ": " + c.Detail
			}
		}
		if missing == "" || !time.Now().Before(late) {
			return checks, up, nil
		}
		if missing != told {
			o.say("waiting for cluster " + missing)
			told = missing
		}
		if err := rest(ctx, settlePause); err != nil {
			return nil, false, err
		}
	}
}

// peeringChecks returns the checks of both clusters' Peerings and of what is offloaded, and
// whether any link is up.
func peeringChecks(ctx context.Context, sides ...*operator.Side) (checks []Check, up bool, err error) {
	for _, s := range sides {
		report, err := operator.ReadReport(ctx, s.Cluster, []string{s.Peering.Name})
		if err != nil {
			return nil, false, err
		}
		is, some := judgePeering(string(report.ClusterID), report.Peerings[0])
		up = up || some
		offloaded, err := offloadChecks(ctx, s.Cluster, report)
		if err != nil {
			return nil, false, err
		}
		checks = append(append(checks, is), offloaded...)
	}
	return checks, up, nil
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
