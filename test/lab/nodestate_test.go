//go:build lab || nightly

package lab

import (
	"context"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

// A node learns from the gateway itself whether it forwards, with either family.
func TestNodesLearnTheStateOfTheirGateway(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	var prober *node.Prober
	if err := top.a.node.in(func() (err error) { prober, err = node.NewProber(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prober.Close)
	told := func(want nodeprobe.State, to netip.Addr) {
		t.Helper()
		eventually(t, "the node is told "+want.String()+" by "+to.String(), func() bool {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			m, err := prober.Ask(ctx, to)
			return err == nil && m.State == want && m.Interval == nodeprobe.MinInterval
		})
	}
	for _, to := range gatewayInternal {
		told(nodeprobe.LinksUp, to)
	}
	top.b.gateway.kill()
	for _, to := range gatewayInternal {
		told(nodeprobe.NoLinks, to)
	}
	top.a.gateway.signal(t, syscall.SIGTERM)
	told(nodeprobe.Leaving, gatewayInternal[0])
}
