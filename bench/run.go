package bench

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"strait.dev/strait/bench/result"
)

// Matching returns the tests whose String matches a pattern.
func Matching(tests []Test, pattern *regexp.Regexp) []Test {
	return slices.DeleteFunc(slices.Clone(tests), func(t Test) bool { return !pattern.MatchString(t.String()) })
}

// Run runs every test once per repetition and adds the samples to r. The order is reversed
// each time, so that drift during a run affects all tests alike. A failed test is not
// repeated, and the others continue. Run ends early only with ctx. A brief run is shorter and less
// precise: to check that the benchmark works. begin is called with each test that begins, its
// repetition, and how many of all have ended.
func Run(ctx context.Context, r *result.Run, tests []Test, repetitions int, brief bool, begin func(t Test, repetition, done, of int)) error {
	e := thorough
	if brief {
		e = quick
	}
	failures := make([]error, len(tests))
	for i := range repetitions * len(tests) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		repetition := i / len(tests)
		at := i % len(tests)
		if repetition%2 == 1 {
			at = len(tests) - 1 - at
		}
		if failures[at] != nil {
			continue
		}
		begin(tests[at], repetition+1, i, repetitions*len(tests))
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
