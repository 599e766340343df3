//go:build lab || nightly

package lab

import (
	"context"
	"slices"
	"syscall"
	"testing"

	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

// A node learns from the gateway itself whether it forwards, with either family.
func TestNodesLearnTheStateOfTheirGateway(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	told := proberOf(t, top.a)
	for _, by := range gatewayInternal {
		told(nodeprobe.LinksUp, by)
	}
	top.b.gateway.kill()
	for _, by := range gatewayInternal {
		told(nodeprobe.NoLinks, by)
	}
	top.a.gateway.signal(t, syscall.SIGTERM)
	told(nodeprobe.Leaving, gatewayInternal[0])
}

// A gateway whose last link goes down tells its nodes without being probed.
func TestNodesAreToldAtOnceThatTheLastLinkIsDown(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	proberOf(t, top.a)(nodeprobe.LinksUp, gatewayInternal[0])
	var prober *node.Prober
	if err := top.a.node.in(func() (err error) { prober, err = node.NewProber(); return err }); err != nil {
		t.Fatal(err)
	}
	defer prober.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var told []nodeprobe.State
	err := prober.Ask(ctx, gatewayInternal[0], func(m nodeprobe.Message) {
		if told = append(told, m.State); len(told) == 1 {
			top.b.gateway.kill()
		} else {
			stop()
		}
	})
	if err != nil || !slices.Equal(told, []nodeprobe.State{nodeprobe.LinksUp, nodeprobe.NoLinks}) {
		t.Errorf("told %v, %v", told, err)
	}
}
