package demo

import (
	"context"
	"fmt"
	"time"
)

// pollInterval is how often a step polls state that has no notification.
const pollInterval = 10 * time.Millisecond

func (d *Demo) link(ctx context.Context, s *Step) error {
	for _, c := range []*cluster{d.a, d.b} {
		for !c.linkUp() {
			select {
			case <-ctx.Done():
				return &mismatch{
					"link probes that cross to and from gateway " + c.Name,
					fmt.Sprintf("none of %d probes", c.gateway.Fabric().Status()[0].ProbesSent),
				}
			case <-time.After(pollInterval):
			}
		}
	}
	status := d.a.gateway.Fabric().Status()[0]
	s.Summary = fmt.Sprintf("up after %s: link probes cross in both directions", seconds(time.Since(d.started).Seconds()))
	s.Figure = &Figure{"round trip", status.RTT.Seconds(), "s"}
	return nil
}

func (c *cluster) linkUp() bool { return c.gateway.Fabric().Status()[0].Up }
