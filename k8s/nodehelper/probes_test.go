package nodehelper

import (
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/nodeprobe"
)

// fakeGateway answers probes in the way of node.Prober.
type fakeGateway struct {
	silent   atomic.Bool
	state    atomic.Uint32 // a nodeprobe.State
	interval time.Duration // that it asks for
	stall    atomic.Int64  // for how long the helper stands still in the next probe, a time.Duration
	asked    atomic.Int64  // calls
}

// newFakeGateway returns a gateway with a link.
func newFakeGateway(interval time.Duration) *fakeGateway {
	g := &fakeGateway{interval: interval}
	g.setState(nodeprobe.LinksUp)
	return g
}

func (g *fakeGateway) setState(s nodeprobe.State) { g.state.Store(uint32(s)) }

//strait:virtualtime
func (g *fakeGateway) ask(ctx context.Context, _ netip.Addr) (nodeprobe.Message, error) {
	g.asked.Add(1)
	if stall := g.stall.Swap(0); stall > 0 {
		time.Sleep(time.Duration(stall))
		return nodeprobe.Message{}, errors.New("the time is over")
	}
	again := time.NewTicker(nodeprobe.MinInterval)
	defer again.Stop()
	for g.silent.Load() {
		select {
		case <-ctx.Done():
			return nodeprobe.Message{}, errors.New("silent")
		case <-again.C:
		}
	}
	return nodeprobe.Message{Answer: true, State: nodeprobe.State(g.state.Load()), Interval: g.interval}, nil
}

// probing probes a gateway until the test ends, and returns after the first answer.
func probing(t *testing.T, g *fakeGateway) (p *probes, changed <-chan struct{}) {
	t.Helper()
	changes := make(chan struct{}, 1)
	p = &probes{ask: g.ask, changed: changes, running: map[string]*activeProbe{}, answers: map[string]nodeprobe.State{}}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); p.all.Wait() })
	p.set(ctx, map[string]netip.Addr{"g": netip.MustParseAddr("10.80.0.1")})
	<-changes
	return p, changes
}

// nextChange returns the time until the next change.
//
//strait:virtualtime
func nextChange(changed <-chan struct{}) time.Duration {
	began := time.Now()
	<-changed
	return time.Since(began)
}

func TestAGatewayThatFallsSilentIsOutAfterThreeMisses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(nodeprobe.MinInterval)
		p, changed := probing(t, g)
		for range 20 {
			g.silent.Store(true)
			if took := nextChange(changed); took < probePatience || took > probePatience+nodeprobe.MinInterval*5/4 || len(p.known()) != 0 {
				t.Errorf("silent: %v after %v", p.known(), took)
			}
			g.silent.Store(false)
			if took := nextChange(changed); took > nodeprobe.MinInterval || p.known()["g"] != nodeprobe.LinksUp {
				t.Errorf("it answers again: %v after %v", p.known(), took)
			}
		}
	})
}

func TestOneOrTwoMissesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(nodeprobe.MinInterval)
		p, changed := probing(t, g)
		for range 50 {
			g.silent.Store(true)
			time.Sleep(2 * nodeprobe.MinInterval)
			g.silent.Store(false)
			time.Sleep(2 * nodeprobe.MinInterval)
		}
		if len(changed) != 0 || p.known()["g"] != nodeprobe.LinksUp {
			t.Errorf("known %v", p.known())
		}
	})
}

func TestOneAnswerChangesTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(nodeprobe.MinInterval)
		p, changed := probing(t, g)
		for _, state := range []nodeprobe.State{nodeprobe.NoLinks, nodeprobe.LinksUp, nodeprobe.Leaving, nodeprobe.Unknown, nodeprobe.LinksUp} {
			g.setState(state)
			if took := nextChange(changed); took > nodeprobe.MinInterval*5/4 || p.known()["g"] != state {
				t.Errorf("%v: known %v after %v", state, p.known(), took)
			}
		}
	})
}

// A gateway with many nodes asks for fewer probes. Silence is noticed as soon as three repeated
// probes are missed all the same.
func TestTheGatewaySetsTheIntervalOfProbes(t *testing.T) {
	for _, c := range []struct{ asks, want time.Duration }{
		{0, nodeprobe.MinInterval}, {time.Millisecond, nodeprobe.MinInterval}, {1250 * time.Millisecond, 1250 * time.Millisecond}, {time.Hour, maxProbeInterval},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newFakeGateway(c.asks)
			_, changed := probing(t, g)
			const probes = 400
			time.Sleep(probes * c.want)
			if n := g.asked.Load(); n < probes*9/10 || n > probes*11/10 {
				t.Errorf("a gateway that asks for %v is asked %d times in %v", c.asks, n, probes*c.want)
			}
			g.silent.Store(true)
			if took := nextChange(changed); took > c.want*5/4+probePatience {
				t.Errorf("a gateway that asks for %v is silent: noticed after %v", c.asks, took)
			}
		})
	}
}

// A helper that stood still does not take gateways for silent: their answers wait to be read.
func TestAHelperThatStoodStillDecidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(nodeprobe.MinInterval)
		p, changed := probing(t, g)
		g.stall.Store(int64(5 * time.Second))
		time.Sleep(10 * time.Second)
		if len(changed) != 0 || p.known()["g"] != nodeprobe.LinksUp {
			t.Errorf("known %v", p.known())
		}
	})
}
