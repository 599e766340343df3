package nodehelper

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
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
	interval atomic.Int64  // that it asks for, a time.Duration
	asked    atomic.Int64  // calls
	sent     atomic.Int64  // requests, repeated ones included
	restates chan struct{} // answers the last probe again; nil: never
	paused   atomic.Int64  // how long the helper stood still until now, a time.Duration
}

// newFakeGateway returns a gateway with a link.
func newFakeGateway(interval time.Duration) *fakeGateway {
	g := &fakeGateway{}
	g.interval.Store(int64(interval))
	g.setState(nodeprobe.LinksUp)
	return g
}

func (g *fakeGateway) setState(s nodeprobe.State) { g.state.Store(uint32(s)) }

//strait:virtualtime
func (g *fakeGateway) ask(ctx context.Context, _ netip.Addr, answered func(nodeprobe.Message)) error {
	g.asked.Add(1)
	g.sent.Add(1)
	again := time.NewTicker(nodeprobe.RepeatInterval)
	defer again.Stop()
	for g.silent.Load() {
		select {
		case <-ctx.Done():
			return errors.New("silent")
		case <-again.C:
			g.sent.Add(1)
		}
	}
	for {
		answered(nodeprobe.Message{Answer: true, State: nodeprobe.State(g.state.Load()), Interval: time.Duration(g.interval.Load())})
		select {
		case <-ctx.Done():
			return nil
		case <-g.restates:
		}
	}
}

// now is the clock of a helper that stood still for some time.
func (g *fakeGateway) now() time.Time { return time.Now().Add(time.Duration(g.paused.Load())) }

// probing probes a gateway until the test ends, and returns after the first answer.
func probing(t *testing.T, g *fakeGateway) *probes {
	t.Helper()
	p := newProbes(g.ask, g.now)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); p.all.Wait() })
	p.set(ctx, map[string]netip.Addr{"g": netip.MustParseAddr("10.80.0.1")})
	<-p.changed
	return p
}

// restating probes a gateway that asks for the longest interval, and answers its last probe again whenever it is told to.
//
//strait:virtualtime
func restating(t *testing.T) (*fakeGateway, *probes) {
	t.Helper()
	g := newFakeGateway(maxProbeInterval)
	g.restates = make(chan struct{})
	p := probing(t, g)
	synctest.Wait()
	return g, p
}

// is returns the state of the gateway, and whether it is joining.
func (p *probes) is() (state nodeprobe.State, answers, joins bool) {
	all, joining, _ := p.known()
	state, answers = all["g"]
	return state, answers, joining["g"]
}

// nextChange returns the time until the next change.
//
//strait:virtualtime
func nextChange(p *probes) time.Duration {
	began := time.Now()
	<-p.changed
	return time.Since(began)
}

// longestAtRest is the longest time between an answer and the next request.
const longestAtRest = nodeprobe.RestInterval

// From the death of a gateway to the event, for deaths at all times between two requests.
func TestADeadGatewayIsFoundWithin400MillisecondsWhileDataCrosses(t *testing.T) {
	for _, c := range []struct{ interval, limit time.Duration }{
		{nodeprobe.MinInterval, 385 * time.Millisecond}, {nodeprobe.RestInterval, 535 * time.Millisecond},
	} {
		var worst time.Duration
		for phase := time.Duration(0); phase < 2*c.interval; phase += 3 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				g := newFakeGateway(c.interval)
				p := probing(t, g)
				time.Sleep(10*time.Second + phase)
				g.silent.Store(true)
				took := nextChange(p)
				if _, answers, _ := p.is(); answers || took < probeMisses*missedAfter || took > c.limit {
					t.Errorf("probed every %v, a death %v after a second is found after %v", c.interval, phase, took)
				}
				worst = max(worst, took)
			})
		}
		t.Logf("probed every %v: found after %v at the latest", c.interval, worst)
	}
}

func TestOneOrTwoMissesChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(nodeprobe.RestInterval)
		p := probing(t, g)
		for range 50 {
			g.silent.Store(true)
			time.Sleep(2 * nodeprobe.RepeatInterval)
			g.silent.Store(false)
			time.Sleep(2 * nodeprobe.RestInterval)
		}
		if state, _, _ := p.is(); len(p.changed) != 0 || state != nodeprobe.LinksUp {
			t.Errorf("state %v", state)
		}
	})
}

func TestOneAnswerChangesTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(nodeprobe.RestInterval)
		p := probing(t, g)
		for _, want := range []nodeprobe.State{nodeprobe.NoLinks, nodeprobe.LinksUp, nodeprobe.Leaving, nodeprobe.Unknown, nodeprobe.LinksUp} {
			g.setState(want)
			took := nextChange(p)
			if state, _, _ := p.is(); took > longestAtRest || state != want {
				t.Errorf("%v: state %v after %v", want, state, took)
			}
		}
	})
}

func TestAStateThatAGatewayTellsUnaskedCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := restating(t)
		for _, want := range []nodeprobe.State{nodeprobe.NoLinks, nodeprobe.LinksUp, nodeprobe.Leaving} {
			g.setState(want)
			g.restates <- struct{}{}
			took := nextChange(p)
			if state, _, _ := p.is(); took > 0 || state != want {
				t.Errorf("%v: state %v after %v", want, state, took)
			}
		}
		if asked := g.asked.Load(); asked != 1 {
			t.Errorf("%d probes", asked)
		}
	})
}

func TestAGatewayThatWasOutJoinsWhenItIsStablyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(nodeprobe.RestInterval)
		p := probing(t, g)
		if _, _, joins := p.is(); joins {
			t.Error("a gateway that was never out is joining")
		}
		for name, out := range map[string]func(bool){
			"silent": g.silent.Store,
			"no link": func(on bool) {
				g.setState(map[bool]nodeprobe.State{true: nodeprobe.NoLinks, false: nodeprobe.LinksUp}[on])
			},
			"leaving": func(on bool) {
				g.setState(map[bool]nodeprobe.State{true: nodeprobe.Leaving, false: nodeprobe.LinksUp}[on])
			},
		} {
			out(true)
			nextChange(p)
			out(false)
			if took := nextChange(p); took > longestAtRest {
				t.Errorf("%s: it answers again after %v", name, took)
			}
			if state, _, joins := p.is(); state != nodeprobe.LinksUp || !joins {
				t.Errorf("%s: at first: %v, joining %t", name, state, joins)
			}
			time.Sleep(joinAfter / 2)
			out(true) // it fails again, and the time begins again
			nextChange(p)
			out(false)
			nextChange(p)
			took := nextChange(p)
			if _, _, joins := p.is(); joins || took < joinAfter || took > joinAfter+longestAtRest {
				t.Errorf("%s: joining %t after %v", name, joins, took)
			}
		}
	})
}

func TestANewGatewayIsUnlinkedUntilItForwards(t *testing.T) {
	t.Parallel()
	p := newProbes(nil, time.Now)
	unlinked := func() bool {
		_, _, all := p.known()
		return all["g"]
	}
	for _, c := range []struct {
		state nodeprobe.State
		want  bool
	}{{nodeprobe.NoLinks, true}, {nodeprobe.LinksUp, false}, {nodeprobe.NoLinks, false}} {
		if p.record("g", c.state); unlinked() != c.want {
			t.Errorf("unlinked after %v: %t", c.state, !c.want)
		}
	}
	if p.forget(nil); unlinked() {
		t.Error("unlinked after it is forgotten")
	}
	if p.record("g", nodeprobe.NoLinks); !unlinked() {
		t.Error("another gateway of the same name is taken for the one before")
	}
}

// askedAt returns when a new helper asks so many gateways, after the first requests and for ten intervals at rest. The gateways
// are set one after the other.
//
//strait:virtualtime
func askedAt(t *testing.T, gateways int) (all [][]time.Time) {
	t.Helper()
	const pause = 30 * time.Millisecond
	var mu sync.Mutex
	at := map[netip.Addr][]time.Time{}
	g := newFakeGateway(nodeprobe.RestInterval)
	p := newProbes(func(ctx context.Context, to netip.Addr, answered func(nodeprobe.Message)) error {
		mu.Lock()
		at[to] = append(at[to], time.Now())
		mu.Unlock()
		return g.ask(ctx, to, answered)
	}, time.Now)
	ctx, stop := context.WithCancel(context.Background())
	defer func() { stop(); p.all.Wait() }()
	set := map[string]netip.Addr{}
	for i := range gateways {
		set[fmt.Sprint(i)] = netip.AddrFrom4([4]byte{10, 80, 0, byte(i)})
		p.set(ctx, set)
		time.Sleep(pause)
	}
	time.Sleep(nodeprobe.RestInterval)
	synctest.Wait()
	mu.Lock()
	clear(at)
	mu.Unlock()
	time.Sleep(10 * nodeprobe.RestInterval)
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	for _, to := range set {
		all = append(all, at[to])
	}
	return all
}

// A node that wakes up once for all its gateways uses less CPU time than one that wakes up for each.
func TestAllGatewaysAreAskedAtTheSameTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := askedAt(t, 3)
		for _, at := range all {
			if len(at) != 10 || !slices.Equal(at, all[0]) {
				t.Errorf("asked at %v, not at %v", at, all[0])
			}
		}
	})
}

func TestNodesThatStartTogetherAskAtDifferentTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		one := askedAt(t, 1)[0][0].Sub(began) % nodeprobe.RestInterval
		for range 10 { // by chance the same time is possible, to the nanosecond
			began = time.Now()
			if another := askedAt(t, 1)[0][0].Sub(began) % nodeprobe.RestInterval; another != one {
				return
			}
		}
		t.Errorf("all ask %v after their start", one)
	})
}

// A gateway may ask for more probes before the next one is due. Silence is noticed that much sooner.
func TestAShorterIntervalThatAGatewayTellsUnaskedCountsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, p := restating(t)
		time.Sleep(time.Second)
		g.interval.Store(int64(nodeprobe.MinInterval))
		g.restates <- struct{}{}
		synctest.Wait()
		g.silent.Store(true)
		if took := nextChange(p); took > nodeprobe.MinInterval+probeMisses*nodeprobe.RepeatInterval {
			t.Errorf("noticed after %v", took)
		}
	})
}

// A gateway with many nodes asks for fewer probes. Silence is noticed as soon as three repeated
// requests are missed all the same.
func TestTheGatewaySetsTheIntervalOfProbes(t *testing.T) {
	for _, c := range []struct{ asks, want time.Duration }{
		{0, nodeprobe.RestInterval}, {time.Millisecond, nodeprobe.MinInterval}, {1250 * time.Millisecond, 1250 * time.Millisecond}, {time.Hour, maxProbeInterval},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newFakeGateway(c.asks)
			p := probing(t, g)
			const probes = 400
			time.Sleep(probes * c.want)
			if n := g.sent.Load(); n < probes*9/10 || n > probes*11/10 {
				t.Errorf("a gateway that asks for %v gets %d requests in %v", c.asks, n, probes*c.want)
			}
			g.silent.Store(true)
			if took := nextChange(p); took > c.want+probeMisses*nodeprobe.RepeatInterval {
				t.Errorf("a gateway that asks for %v is silent: noticed after %v", c.asks, took)
			}
			// All nodes of a gateway that starts again: not more requests than it asks for.
			before := g.sent.Load()
			time.Sleep(probes * c.want)
			if n := g.sent.Load() - before; n > probes*11/10 {
				t.Errorf("a silent gateway that asked for %v gets %d requests in %v", c.asks, n, probes*c.want)
			}
		})
	}
}

// A gateway answers 25 requests of a node per second, and two probes may run for a moment while
// one is replaced.
func TestRequestsStayWithinTheBudgetOfTheGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGateway(nodeprobe.MinInterval)
		probing(t, g)
		for range 200 { // requests are missed at all times
			before := g.sent.Load()
			g.silent.Store(true)
			time.Sleep(300 * time.Millisecond)
			g.silent.Store(false)
			time.Sleep(700 * time.Millisecond)
			if n := g.sent.Load() - before; 2*n > 25 {
				t.Fatalf("%d requests in a second", n)
			}
		}
	})
}

// A helper that stood still does not take gateways for silent: their answers wait to be read.
func TestAHelperThatStoodStillDecidesNothing(t *testing.T) {
	for _, pause := range []time.Duration{nodeprobe.RepeatInterval, 2 * nodeprobe.RepeatInterval, 3 * nodeprobe.RepeatInterval, 5 * time.Second, 2 * time.Minute} {
		for phase := time.Duration(0); phase < 2*nodeprobe.RestInterval; phase += 10 * time.Millisecond {
			synctest.Test(t, func(t *testing.T) {
				g := newFakeGateway(nodeprobe.RestInterval)
				p := probing(t, g)
				time.Sleep(phase)
				// The clock goes on, and nothing else does: the first timer that fires afterwards fires late.
				g.silent.Store(true)
				time.Sleep(nodeprobe.RepeatInterval / 2)
				g.paused.Add(int64(pause))
				time.Sleep(nodeprobe.RepeatInterval / 2)
				g.silent.Store(false)
				time.Sleep(10 * time.Second)
				if state, answers, _ := p.is(); len(p.changed) != 0 || !answers || state != nodeprobe.LinksUp {
					t.Errorf("a pause of %v at %v: state %v", pause, phase, state)
				}
			})
		}
	}
}
