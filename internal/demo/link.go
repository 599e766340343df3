package demo

import (
	"context"
	"fmt"
	"time"
)

// pollInterval is how often a step looks again at what does not wake it.
const pollInterval = 10 * time.Millisecond

// link waits until probes of both gateways have come back through the tunnel.
func (d *Demo) link(ctx context.Context, s *Step) error {
	for _, c := range []*cluster{d.a, d.b} {
		for !c.linkUp() {
			select {
			case <-ctx.Done():
				return &mismatch{
					"an answer to the probes of gateway " + c.name,
					fmt.Sprintf("none to %d probes", c.gateway.Fabric().Status()[0].ProbesSent),
				}
			case <-time.After(pollInterval):
			}
		}
	}
	status := d.a.gateway.Fabric().Status()[0]
	s.Summary = fmt.Sprintf("up after %s: probes cross the tunnel both ways", seconds(time.Since(d.started).Seconds()))
	s.Figure = &Figure{"round trip", status.RTT.Seconds(), "s"}
	return nil
}

func (c *cluster) linkUp() bool { return c.gateway.Fabric().Status()[0].Up }
