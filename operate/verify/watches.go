package verify

import (
	"context"
	"errors"
	"fmt"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/internal/endpoint/leak"
)

// watch is an agent that captures packets on its node.
type watch struct {
	*session
	cluster int
}

// watches are the watches of a run.
type watches struct {
	all []watch
	why [2][]error // by cluster: errors of agents that could not capture
}

// startWatches starts captures on all nodes with agents, and waits until they run.
func startWatches(ctx context.Context, sites [2]*site, marker endpoint.Marker) *watches {
	w := &watches{}
	for i, s := range sites {
		for _, p := range s.locations {
			if !p.host || p.agent == "" {
				continue
			}
			node, _ := s.node(p.other)
			w.all = append(w.all, watch{s.begin(ctx, p.agent, "watch", watchOrder(s.clusterState, sites[1-i].clusterState, node, marker), maxRunTime), i})
		}
	}
	var looking []watch
	for _, one := range w.all {
		var ready string
		if err := one.next(&ready); err != nil {
			one.cancel()
			w.why[one.cluster] = append(w.why[one.cluster], fmt.Errorf("cannot capture packets: %w", err))
			continue
		}
		looking = append(looking, one)
	}
	w.all = looking
	return w
}

// stop ends the watches that still run.
func (w *watches) stop() {
	for _, one := range w.all {
		one.cancel()
	}
}

// judge ends the watches, and evaluates their captures.
func (w *watches) judge(sites [2]*site) (checks []Check) {
	var reports [2][]leak.Report
	for _, one := range w.all {
		var is leak.Report
		if err := one.end(&is); err != nil {
			w.why[one.cluster] = append(w.why[one.cluster], err)
			continue
		}
		reports[one.cluster] = append(reports[one.cluster], is)
	}
	for i, s := range sites {
		checks = append(checks, judgeWatch(s.id, reports[i], errors.Join(w.why[i]...)))
	}
	return checks
}
