package operator

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// WatchInterval is how often a watch reads. Reports of gateways change once in some seconds.
const WatchInterval = 2 * time.Second

// Watch reads the report of a cluster's peerings, of those with these names or of all, until ctx ends. It passes each
// to see, or the error of an API server that does not answer at present. Any other error ends it, also one of see.
func Watch(ctx context.Context, c Cluster, names []string, see func(*Report, error) error) error {
	tick := time.NewTicker(WatchInterval)
	defer tick.Stop()
	for {
		r, err := ReadReport(ctx, c, names)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !isTemporary(err):
			return err
		}
		if err := see(r, err); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Changes returns what has changed between two reports, one line each; of all peerings if before is nil. Round trips
// and ages are not changes.
func Changes(before, after *Report) (lines []string) {
	if before == nil {
		before = new(Report)
	}
	for i := range after.Peerings {
		p := &after.Peerings[i]
		if at := find(before.Peerings, p.Name); at >= 0 {
			lines = append(lines, p.changes(&before.Peerings[at])...)
		} else {
			lines = append(lines, fmt.Sprintf("Peering %s: %s", p.Name, p.state()))
			lines = append(lines, p.linkChanges(new(PeeringReport))...)
		}
	}
	for i := range before.Peerings {
		if name := before.Peerings[i].Name; find(after.Peerings, name) < 0 {
			lines = append(lines, fmt.Sprintf("Peering %s: deleted", name))
		}
	}
	return lines
}

func find(all []PeeringReport, name string) int {
	return slices.IndexFunc(all, func(p PeeringReport) bool { return p.Name == name })
}

// state returns whether a peering is ready, and if not, why.
func (s *PeeringReport) state() string {
	if s.Ready {
		return "ready"
	}
	return "not ready: " + s.Missing
}

func (s *PeeringReport) changes(before *PeeringReport) (lines []string) {
	if s.state() != before.state() {
		lines = append(lines, fmt.Sprintf("Peering %s: %s", s.Name, s.state()))
	}
	if s.MTU != before.MTU {
		lines = append(lines, fmt.Sprintf("Peering %s: MTU %d", s.Name, s.MTU))
	}
	for _, stage := range s.Stages {
		at := slices.IndexFunc(before.Stages, func(other Stage) bool { return other.Name == stage.Name })
		if at < 0 || before.Stages[at].State != stage.State {
			lines = append(lines, fmt.Sprintf("Peering %s: %s %s", s.Name, marks[stage.State], stage.text()))
		}
	}
	return append(lines, s.linkChanges(before)...)
}

// text returns the name of a stage, with its message.
func (s Stage) text() string { return s.Name + after(": ", s.Message) }

func (s *PeeringReport) linkChanges(before *PeeringReport) (lines []string) {
	same := func(l Link) func(Link) bool {
		return func(other Link) bool { return other.Local == l.Local && other.Remote == l.Remote }
	}
	line := func(l Link, what string) {
		lines = append(lines, fmt.Sprintf("Peering %s: link %s to %s %s", s.Name, l.Local, l.Remote, what))
	}
	for _, l := range s.Links {
		at := slices.IndexFunc(before.Links, same(l))
		if at < 0 || before.Links[at].Up != l.Up {
			line(l, map[bool]string{true: "is up", false: "is down"}[l.Up])
		}
	}
	for _, l := range before.Links {
		if !slices.ContainsFunc(s.Links, same(l)) {
			line(l, "is gone")
		}
	}
	return lines
}
