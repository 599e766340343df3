//go:build nightly

package clusters

import (
	"testing"
	"time"
)

// measureSpread counts the flows through each of four gateways of each cluster, and those that
// move although another gateway is killed.
func (r *throughputRun) measureSpread(t *testing.T) {
	const gateways, count = 4, 2000 // 1,000 in each direction
	f := newFailover(t, gateways+1, gateways, count, 500*time.Millisecond)
	passing := f.passing()
	for _, from := range []*cluster{f.a, f.b} {
		for _, c := range []*cluster{f.a, f.b} {
			s := spreadSample{From: from.name, Through: map[string]int{}}
			for _, flow := range f.flows.Flows {
				if flow.From == from.name {
					s.Flows++
				}
			}
			for _, g := range c.gateways {
				s.Through[g.label()] = 0
				for _, flow := range f.flows.Flows {
					if flow.From == from.name && passing[g.label()][flow.ID] {
						s.Through[g.label()]++
					}
				}
			}
			r.Spread = append(r.Spread, s)
			t.Logf("%d flows from cluster %s through %v", s.Flows, s.From, s.Through)
		}
	}
	killed := f.a.gateways["b-0"]
	killed.Kill()
	time.Sleep(5 * time.Second) // nodes and gateways notice it
	f.delivered()
	after := f.passing()
	for _, tcp := range []bool{false, true} {
		for _, from := range []*cluster{f.a, f.b} {
			s := regroupSample{ChosenBy: "nodes", Protocol: "UDP", Gateways: gateways}
			if from == f.b {
				s.ChosenBy = "gateways"
			}
			if tcp {
				s.Protocol = "TCP"
			}
			for _, g := range f.a.gateways {
				for _, flow := range f.flows.Flows {
					if g == killed || flow.From != from.name || flow.TCP() != tcp || !passing[g.label()][flow.ID] {
						continue
					}
					s.Flows++
					if !after[g.label()][flow.ID] {
						s.Moved++
					}
				}
			}
			r.Regroup = append(r.Regroup, s)
			t.Logf("%d of %d %s flows of other gateways, chosen by %s, moved after a kill", s.Moved, s.Flows, s.Protocol, s.ChosenBy)
		}
	}
	killed.startContainer(t)
}
