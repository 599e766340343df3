//go:build lab || nightly

package nodes

import (
	"context"
	"slices"
	"syscall"
	"testing"

	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/test/lab"
)

// A node learns from the gateway itself whether it forwards, with either family.
func TestNodesLearnTheStateOfTheirGateway(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	told := lab.ProberOf(t, top.A)
	for _, by := range lab.GatewayInternal {
		told(nodeprobe.LinksUp, by)
	}
	top.B.Gateway.Kill()
	for _, by := range lab.GatewayInternal {
		told(nodeprobe.NoLinks, by)
	}
	top.A.Gateway.Signal(t, syscall.SIGTERM)
	told(nodeprobe.Leaving, lab.GatewayInternal[0])
}

// A gateway whose last link goes down tells its nodes without being probed.
func TestNodesAreToldAtOnceThatTheLastLinkIsDown(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ProberOf(t, top.A)(nodeprobe.LinksUp, lab.GatewayInternal[0])
	var prober *node.Prober
	if err := top.A.Node.In(func() (err error) { prober, err = node.NewProber(); return err }); err != nil {
		t.Fatal(err)
	}
	defer prober.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var told []nodeprobe.State
	err := prober.Ask(ctx, lab.GatewayInternal[0], func(m nodeprobe.Message) {
		if told = append(told, m.State); len(told) == 1 {
			top.B.Gateway.Kill()
		} else {
			stop()
		}
	})
	if err != nil || !slices.Equal(told, []nodeprobe.State{nodeprobe.LinksUp, nodeprobe.NoLinks}) {
		t.Errorf("told %v, %v", told, err)
	}
}
