package verify

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"strait.dev/strait/internal/endpoint"
)

// flow is a connection that lasts for as long as the run.
type flow struct {
	*session
	planned
}

// flows are all of them.
type flows []flow

// startFlows opens a connection each way, between the pods that are farthest from their
// gateways.
func startFlows(ctx context.Context, sites [2]*site, marker endpoint.Marker) (all flows) {
	for i, s := range sites {
		from, to := farthestPod(s.locations), farthestPod(sites[1-i].locations)
		for _, f := range families {
			if !from.seen[f].IsValid() || !to.seen[f].IsValid() {
				continue
			}
			all = append(all, flow{
				s.begin(ctx, from.agent, "flow", endpoint.FlowOrder{
					Marker: marker, To: netip.AddrPortFrom(to.seen[f], endpoint.Port), Source: from.seen[f], Patience: firstTimeout, Longest: maxRunTime,
				}),
				planned{Check{Group: OfFlow, From: s.id, To: sites[1-i].id, Family: string(f), Source: from.String(), Destination: to.String(), What: "a connection that lasts"},
					from.agent, endpoint.Check{Protocol: endpoint.TCP, To: netip.AddrPortFrom(to.seen[f], endpoint.Port)}},
			})
		}
	}
	return all
}

// farthestPod is the pod that has most hops to the gateway.
func farthestPod(locations []location) (s location) {
	for _, p := range locations {
		if !p.host && p.agent != "" {
			s = p
		}
	}
	return s
}

// stop ends what still runs.
func (all flows) stop() {
	for _, f := range all {
		f.cancel()
	}
}

// judge ends the flows, and says what became of them.
func (all flows) judge() (checks []Check) {
	for _, f := range all {
		c := f.Check
		var is endpoint.Result
		if err := f.end(&is); err != nil {
			c.Outcome, c.Detail = Failed, err.Error()
			c.Cause, c.Remedy = "the agent ended, or the API server cut the connection to it", "run it again; with --keep the pods stay, with their events"
		} else if c = judge(f.planned, is, 0); c.Outcome == Passed {
			c.Detail = fmt.Sprintf("%d bytes, %v without an answer at most", is.Bytes, is.Silence.Round(time.Millisecond))
		}
		checks = append(checks, c)
	}
	return checks
}
