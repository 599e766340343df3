//go:build nightly

package scale

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"strait.dev/strait/bench/measure"
)

// changes is the result of creating and removing pods.
type changes struct {
	mu             sync.Mutex
	made           int
	begun, ended   time.Duration      // of the first and the last request
	ready, removed *measure.Latencies // of pods outside of their nodes' CIDRs
	failures       []error            // pods that were not reached, or were reached after their removal
	requests       *measure.Latencies // time per change in the API server
	strays         int
	dropped        map[string]int // packets dropped by the gateway, by reason
}

// churn creates and removes pods in turn at the requested rate, without waiting for earlier
// ones.
func (w *world) churn(t *testing.T) *changes {
	c := &changes{ready: measure.NewLatencies(), removed: measure.NewLatencies(), requests: measure.NewLatencies()}
	before := w.drops(t)
	clock := w.probes.clock
	pace := measure.Pace{Rate: float64(w.rate), Start: clock.Now()}
	c.begun = pace.Start
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var all sync.WaitGroup
	for i := 0; i < w.rate*w.seconds && ctx.Err() == nil; i++ {
		time.Sleep(pace.At(i) - clock.Now())
		all.Go(func() {
			if err := w.change(ctx, c, i); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	must(t, context.Cause(ctx))
	c.strays = w.probes.strayed()
	c.dropped = make(map[string]int)
	for reason, n := range w.drops(t) {
		if n > before[reason] {
			c.dropped[reason] = n - before[reason]
		}
	}
	return c
}

// change makes one change: even ones create a pod, odd ones remove the oldest. It returns
// an error only if continuing is pointless.
func (w *world) change(ctx context.Context, c *changes, i int) error {
	l, comes := w.inside, i%2 == 0
	if i/2%outsideChurnShare == 0 {
		l = w.outside
	}
	pick, do := l.oldest, w.remove
	if comes {
		pick, do = l.next, w.run
	}
	p, err := pick(ctx)
	if err != nil {
		return err
	}
	clock := w.probes.clock
	asked := clock.Now()
	if err := do(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	answered := clock.Now()
	c.mu.Lock()
	c.made++
	c.ended = max(c.ended, answered)
	c.requests.Record(asked, answered)
	c.mu.Unlock()
	if l == w.outside {
		c.follow(w.probes, p, comes, answered)
	}
	if comes {
		l.running <- p
	} else if l.free != nil {
		l.free <- p.address
	}
	return nil
}

// follow measures how long packets take to follow a change.
func (c *changes) follow(probes *prober, p onePod, comes bool, since time.Duration) {
	look, into := probes.awaitGone, c.removed
	if comes {
		look, into = probes.await, c.ready
	}
	took, err := look(p, since)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failures = append(c.failures, err)
		return
	}
	into.Record(0, took)
}

// rate returns the changes per second.
func (c *changes) rate() float64 { return float64(c.made) / (c.ended - c.begun).Seconds() }

// spotCheck sends packets to some existing pods of both types.
func (w *world) spotCheck(t *testing.T) {
	const some = 50
	for _, l := range []*podSet{w.inside, w.outside} {
		for range min(some, len(l.running)) {
			p := <-l.running
			l.running <- p
			if _, err := w.probes.await(p, w.probes.clock.Now()); err != nil {
				t.Fatal(err)
			}
		}
	}
}
