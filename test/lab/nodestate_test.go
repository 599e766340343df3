//go:build lab || nightly

package lab

import (
	"context"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"strait.dev/strait/node"
	"strait.dev/strait/nodeprobe"
)

// proberOf returns a function that waits until the node of a site is told a state by an address
// of its gateway.
func proberOf(t *testing.T, s *site) (told func(want nodeprobe.State, by netip.Addr)) {
	t.Helper()
	var prober *node.Prober
	if err := s.node.in(func() (err error) { prober, err = node.NewProber(); return err }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(prober.Close)
	return func(want nodeprobe.State, by netip.Addr) {
		t.Helper()
		eventually(t, "the node is told "+want.String()+" by "+by.String(), func() bool {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			var m nodeprobe.Message
			err := prober.Ask(ctx, by, func(answer nodeprobe.Message) { m = answer; stop() })
			return err == nil && m.State == want && (m.Interval == nodeprobe.RestInterval || m.Interval == nodeprobe.MinInterval)
		})
	}
}

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

// A plain WireGuard answers no link probes, and its link carries traffic all the same.
func TestAPlainWireGuardPeerCountsAsALinkThatIsUp(t *testing.T) {
	t.Parallel()
	withEachReference(t, func(t *testing.T, k kind) {
		l := buildNetns(t, k, netnsOptions{})
		told := proberOf(t, l.a)
		waitForPing(t, l.a.pod, l.a.sees(referenceInner[0]))
		told(nodeprobe.LinksUp, gatewayInternal[0])
	})
}
