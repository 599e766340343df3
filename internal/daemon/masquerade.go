package daemon

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// expireInterval is how often flows that have timed out are looked for. RFC 4787 and
// others bound timers from below alone: a flow that lives a little longer does no harm.
const expireInterval = time.Second

// newFlows is the state that the configuration needs for masquerading: what the gateway
// has, if that will do, nil if it needs none. Flows survive changes of everything but of
// their number.
func newFlows(c *config.Gateway, present *gateway.Flows) *gateway.Flows {
	if len(c.Masquerade.Sources) == 0 {
		return nil
	}
	flows, perSource := c.Masquerade.Limits()
	if present == nil || !present.Has(flows, perSource) {
		present = gateway.NewFlows(gateway.FlowsConfig{Flows: flows, FlowsPerSource: perSource, Random: random(), Epoch: time.Now()})
	}
	present.Use(c.Overlay.ExternalAddresses)
	return present
}

// random is a source that nobody outside can predict, RFC 6056 section 3.
func random() rand.Source {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails: the program would have ended
	return rand.NewChaCha8(seed)
}

// expireFlows ends flows that have timed out until ctx ends.
func (d *Daemon) expireFlows(ctx context.Context) {
	tick := time.NewTicker(expireInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if f := d.fabric.Gateway.Flows(); f != nil {
				f.Expire(now)
			}
		}
	}
}

// setTable makes the gateway work by another table, with the flows that it needs: before
// the table where it is to have some, after it where not.
func (d *Daemon) setTable(t *gateway.Table, f *gateway.Flows) {
	if f != nil {
		d.fabric.Gateway.SetFlows(f)
	}
	d.fabric.Gateway.SetTable(t)
	if f == nil {
		d.fabric.Gateway.SetFlows(nil)
	}
}
