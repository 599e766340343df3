package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// printSlowest prints the slowest tests, without subtests.
func printSlowest(out io.Writer, all []result, number int) {
	var tests []result
	for _, r := range all {
		if r.Test != "" && !strings.Contains(r.Test, "/") && r.Seconds >= 0.1 {
			tests = append(tests, r)
		}
	}
	slices.SortStableFunc(tests, func(a, b result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	for _, r := range tests[:min(number, len(tests))] {
		fmt.Fprintf(out, "slow: %6.1f s %s\n", r.Seconds, r.Name())
	}
}

// printOutcomes prints a line for each skipped, flaky or failed test, then the counts, and
// reports whether none failed. A flaky test counts as passed.
func printOutcomes(out io.Writer, all []result) bool {
	counts := make(map[string]int)
	for _, r := range all {
		counts[r.Outcome]++
	}
	for _, listed := range []struct{ outcome, label string }{
		{skip, "skipped"}, {flaky, "flaky"}, {fail, "failed"},
	} {
		for _, r := range all {
			if r.Outcome == listed.outcome {
				fmt.Fprintln(out, strings.TrimSuffix(listed.label+": "+r.Name()+": "+r.Reason, ": "))
			}
		}
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", counts[pass]+counts[flaky], counts[fail], counts[skip])
	return counts[fail] == 0
}

// printFailures prints in how many runs each test failed, most failures first, and reports
// whether none failed.
func printFailures(out io.Writer, runs [][]result) bool {
	failures := make(map[string]int)
	green := 0
	for _, run := range runs {
		failed := false
		for _, r := range run {
			if r.Outcome == fail || r.Outcome == flaky {
				failures[r.Name()]++
				failed = true
			}
		}
		if !failed {
			green++
		}
	}
	names := slices.SortedFunc(maps.Keys(failures), func(a, b string) int {
		return cmp.Or(cmp.Compare(failures[b], failures[a]), cmp.Compare(a, b))
	})
	for _, name := range names {
		fmt.Fprintf(out, "failed in %d of %d runs: %s\n", failures[name], len(runs), name)
	}
	fmt.Fprintf(out, "%d of %d runs green\n", green, len(runs))
	return green == len(runs)
}
