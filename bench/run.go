package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"strait.dev/strait/bench/result"
)

// Options of a run.
type Options struct {
	Repetitions int
	Quick       bool // shorter and less precise: to check that the benchmark works
}

// Watcher receives the progress of a run: which test begins, and how many have ended.
type Watcher interface {
	Begin(t Test, repetition, done, of int)
}

// Matching returns the tests whose String matches a pattern; all if it is nil.
func Matching(tests []Test, pattern *regexp.Regexp) (some []Test) {
	for _, t := range tests {
		if pattern == nil || pattern.MatchString(t.String()) {
			some = append(some, t)
		}
	}
	return some
}

// Run runs every test once per repetition and adds the samples to r. The order is reversed
// each time, so that drift during a run affects all tests alike. A failed test is not
// repeated, and the others continue. Run ends early only with ctx.
func Run(ctx context.Context, r *result.Run, tests []Test, o Options, w Watcher) error {
	e := thorough
	if o.Quick {
		e = quick
	}
	failures := make([]error, len(tests))
	for i := range o.Repetitions * len(tests) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		repetition := i / len(tests)
		at := position(i%len(tests), len(tests), repetition)
		if failures[at] != nil {
			continue
		}
		w.Begin(tests[at], repetition+1, i, o.Repetitions*len(tests))
		failures[at] = tests[at].take(ctx, e, r, repetition+1)
	}
	return errors.Join(failures...)
}

func (t Test) take(ctx context.Context, e effort, r *result.Run, repetition int) error {
	metrics, err := t.measure(ctx, e)
	if err == nil {
		err = r.Add(result.Sample{Test: t.Name, Subject: t.Subject, Mode: t.Mode, Repetition: repetition, Metrics: metrics})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	return nil
}

// position returns the index of the i-th test of n in a repetition: forward, backward,
// forward.
func position(i, n, repetition int) int {
	if repetition%2 == 1 {
		return n - 1 - i
	}
	return i
}

// pause waits. It reports false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
