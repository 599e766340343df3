package daemon

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// expireInterval is how often timed-out flows are removed; RFC 4787 sets lower limits only.
const expireInterval = time.Second

// newFlows returns the masquerading state for a configuration: the present one if its limits are the same, nil if none is
// needed. Flows survive all configuration changes except changes of the limits.
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

// random returns an unpredictable source, RFC 6056 section 3.
func random() rand.Source {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails: the program would have ended
	return rand.NewChaCha8(seed)
}

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

// setTable sets the table and the flows of the gateway: new flows before the table that uses them, and removed flows after it.
func (d *Daemon) setTable(t *gateway.Table, f *gateway.Flows) {
	if f != nil {
		d.fabric.Gateway.SetFlows(f)
	}
	d.fabric.Gateway.SetTable(t)
	if f == nil {
		d.fabric.Gateway.SetFlows(nil)
	}
}
