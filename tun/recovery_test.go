package tun

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/link"
)

// slowPair are the two ends of a link in virtual time. Either may be killed and started again.
type slowPair struct {
	t       *testing.T
	keys    [2]device.NoisePrivateKey
	silent  [2]bool // that end has no endpoint of the other
	delay   time.Duration
	ends    [2]*slowEnd
	cancels [2]context.CancelFunc
	running [2]*sync.WaitGroup
}

// newSlowPair returns a pair that is not running. yields is the end whose initiations do not prevail.
func newSlowPair(t *testing.T, delay time.Duration, yields int) *slowPair {
	p := &slowPair{t: t, keys: [2]device.NoisePrivateKey{newKey(), newKey()}, delay: delay}
	if one := newSlowEnd(p.keys[0], p.keys[1], delay); one.crossing.Prevails == (yields == 0) {
		p.keys[0], p.keys[1] = p.keys[1], p.keys[0]
	}
	return p
}

// settle starts both ends, and waits until the link is up and its estimated round-trip time has settled.
//
//strait:virtualtime
func (p *slowPair) settle(t *testing.T) {
	t.Helper()
	p.start(0)
	p.start(1)
	if up := p.bothUp(20 * time.Second); up == 20*time.Second {
		t.Error("the link does not come up")
	}
	time.Sleep(10 * time.Second)
}

// start starts an end as a new process.
func (p *slowPair) start(i int) {
	e := newSlowEnd(p.keys[i], p.keys[1-i], p.delay)
	if p.silent[i] {
		e.silence()
	}
	if other := p.ends[1-i]; other != nil {
		other.other.Store(e)
		e.other.Store(other)
	}
	var ctx context.Context
	ctx, p.cancels[i] = context.WithCancel(p.t.Context())
	p.ends[i], p.running[i] = e, new(sync.WaitGroup)
	e.start(ctx, p.t, p.running[i])
}

// kill ends a process. What was sent to it is lost.
func (p *slowPair) kill(i int) {
	p.cancels[i]()
	p.running[i].Wait()
}

// bothUp returns how long it takes until both ends are up, or a limit.
//
//strait:virtualtime
func (p *slowPair) bothUp(limit time.Duration) time.Duration {
	began := time.Now()
	for !p.ends[0].up() || !p.ends[1].up() {
		if time.Since(began) >= limit {
			return limit
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// down returns how long it takes until an end is down, or a limit.
//
//strait:virtualtime
func (p *slowPair) down(i int, began time.Time, limit time.Duration) time.Duration {
	for p.ends[i].up() && time.Since(began) < limit {
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

func (p *slowPair) end() {
	p.kill(0)
	p.kill(1)
}

// A link that is cut in one direction or in both is down at both ends within a second, whenever
// that happens, and up again soon after the path is.
func TestF22_ACutLinkIsDownAtBothEndsWithinASecond(t *testing.T) {
	if !inVirtualTime(t) {
		return
	}
	for _, cut := range [][]int{{0}, {1}, {0, 1}} {
		for _, delay := range []time.Duration{time.Millisecond, 50 * time.Millisecond} {
			for _, outage := range []time.Duration{2 * time.Second, 30 * time.Second} {
				var downs, ups []time.Duration
				for phase := range phases(link.Interval, 41*time.Millisecond) {
					synctest.Test(t, func(t *testing.T) {
						p := newSlowPair(t, delay, 1)
						p.start(0)
						p.start(1)
						if up := p.bothUp(20 * time.Second); up == 20*time.Second {
							t.Error("the link does not come up")
						}
						time.Sleep(10*time.Second + phase)
						began := time.Now()
						for _, i := range cut {
							p.ends[i].cut.Store(true)
						}
						var both sync.WaitGroup
						var took [2]time.Duration
						for i := range took {
							both.Go(func() { took[i] = p.down(i, began, 6*time.Second) })
						}
						both.Wait()
						downs = append(downs, took[:]...)
						time.Sleep(outage)
						for _, i := range cut {
							p.ends[i].cut.Store(false)
						}
						ups = append(ups, p.bothUp(20*time.Second))
						p.end()
					})
				}
				t.Logf("cut %v, one way %v, for %v: down after %v to %v, up again after %v to %v", cut, delay, outage,
					slices.Min(downs), slices.Max(downs), slices.Min(ups), slices.Max(ups))
				if down, up := slices.Max(downs), slices.Max(ups); down > time.Second || up > 5*time.Second {
					t.Errorf("cut %v, one way %v, for %v: down after %v, want 1s; up again after %v, want 5s", cut, delay, outage, down, up)
				}
			}
		}
	}
}

// After an outage both ends try at the same times.
func TestF22_InitiationsThatCrossAfterAnOutageDoNotCrossAgain(t *testing.T) {
	if !inVirtualTime(t) {
		return
	}
	var slowest time.Duration
	for phase := range phases(link.Interval, 3*time.Millisecond) {
		synctest.Test(t, func(t *testing.T) {
			p := newSlowPair(t, time.Millisecond, 1)
			p.settle(t)
			time.Sleep(phase)
			cut := func(is bool) { p.ends[0].cut.Store(is); p.ends[1].cut.Store(is) }
			cut(true)
			time.Sleep(30 * time.Second)
			cut(false)
			slowest = max(slowest, p.bothUp(20*time.Second))
			p.end()
		})
	}
	if slowest > 5*time.Second {
		t.Errorf("up again after %v, want 5s", slowest)
	}
}
