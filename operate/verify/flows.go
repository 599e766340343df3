package verify

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"strait.dev/strait/internal/endpoint"
)

// flow is a connection that stays open during the run.
type flow struct {
	*session
	planned
	failed error // the agent did not begin
}

type flows []flow

// startFlows opens a connection in each direction, between the pods that are farthest from
// their gateways: where gateways carry connections, to the Service of the pod. It returns when each is open, or
// cannot be opened: a node that does not know a new Service yet makes its client wait, for longer than all checks may
// take.
func startFlows(ctx context.Context, sites [2]*site, shapes [2]shape, marker endpoint.Marker) (all flows) {
	for i, s := range sites {
		from, to := farthestPod(s.locations), farthestPod(sites[1-i].locations)
		for _, f := range families {
			at, source := to.seen[f], from.seen[f]
			if throughGateways(shapes[:]...) != "" {
				at, source = shapes[i].services[to.agent][f].address, netip.Addr{}
			}
			if !from.seen[f].IsValid() || !to.seen[f].IsValid() || !at.IsValid() {
				continue
			}
			all = append(all, flow{
				s.begin(ctx, from.agent, "flow", endpoint.FlowOrder{
					Marker: marker, To: netip.AddrPortFrom(at, endpoint.Port), Source: source, Patience: firstTimeout, Longest: maxRunTime,
				}, maxRunTime),
				planned{Check{Group: OfFlow, From: s.id, To: sites[1-i].id, Family: string(f), Source: from.String(), Destination: to.String(), What: "long-lived connection"},
					from.agent, endpoint.Check{Protocol: endpoint.TCP, To: netip.AddrPortFrom(at, endpoint.Port)}},
				nil,
			})
		}
	}
	for i := range all {
		var ready string
		all[i].failed = all[i].next(&ready)
	}
	return all
}

// farthestPod returns the pod with the most hops to the gateway.
func farthestPod(locations []location) (s location) {
	for _, p := range locations {
		if !p.host && p.agent != "" {
			s = p
		}
	}
	return s
}

// stop ends the flows that still run.
func (all flows) stop() {
	for _, f := range all {
		f.cancel()
	}
}

// judge ends the flows, and evaluates their results.
func (all flows) judge() (checks []Check) {
	for _, f := range all {
		c := f.Check
		var is endpoint.Result
		err := f.failed
		if err == nil {
			err = f.end(&is)
		}
		if err != nil {
			c.Outcome, c.Detail = Failed, err.Error()
			c.Cause, c.Remedy = "the agent exited, or the API server closed the connection to it", "run the test again; with --keep the pods and their events are kept"
		} else if c = judge(f.planned, is, 0); c.Outcome == Passed {
			c.Detail = fmt.Sprintf("%d bytes, longest time without an answer %v", is.Bytes, is.Silence.Round(time.Millisecond))
		}
		checks = append(checks, c)
	}
	return checks
}
