package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Outcomes of a test.
const (
	pass  = "pass"
	fail  = "fail"
	skip  = "skip"
	flaky = "flaky" // failed, and passed when run again
)

// result is the outcome of a test in one stream.
type result struct {
	Package string `json:"package"` // import path
	Test    string `json:"test"`    // with subtests, as in TestA/b; empty: the package as a whole
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"` // of a skipped test: its last line of output
	// Seconds is the duration of the longest run.
	Seconds float64 `json:"seconds"`
}

// Name is the package and the test.
func (r result) Name() string { return strings.TrimSuffix(r.Package+"."+r.Test, ".") }

// event is one line of the stream.
type event struct {
	Action, Package, Test, Output string

	Elapsed float64 // seconds
}

// test collects the events of one test over all of its runs.
type test struct {
	result
	failures, passes int
	running          bool
	last             string // line of output
}

// read returns the results of the events of `go test -json` (go doc test2json), sorted by name. A package has its own result only
// if it failed without a failed test: it did not build, or crashed. A test that started and
// did not end failed. Lines that are not events are ignored.
func read(stream []byte) []result {
	tests := make(map[string]*test)
	for line := range bytes.Lines(stream) {
		var e event
		if json.Unmarshal(line, &e) == nil && e.Action != "" {
			add(tests, e)
		}
	}
	return results(tests)
}

// severity orders the outcomes of several streams: the highest one counts.
var severity = map[string]int{skip: 1, pass: 2, flaky: 3, fail: 4}

// merge combines the results of each test in several streams, sorted by name: it failed if
// it failed in one, and passed if it passed in one and was skipped in the others.
func merge(streams ...[]result) []result {
	byName := make(map[string]result)
	for _, stream := range streams {
		for _, r := range stream {
			known := byName[r.Name()]
			seconds := max(known.Seconds, r.Seconds)
			if severity[r.Outcome] > severity[known.Outcome] {
				known = r
			}
			known.Seconds = seconds
			byName[r.Name()] = known
		}
	}
	return sorted(slices.Collect(maps.Values(byName)))
}

func sorted(all []result) []result {
	slices.SortFunc(all, func(a, b result) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

func add(tests map[string]*test, e event) {
	if e.Package == "" { // output of the compiler; the package's own fail event follows
		return
	}
	key := e.Package + "." + e.Test
	t := tests[key]
	if t == nil {
		t = &test{result: result{Package: e.Package, Test: e.Test}}
		tests[key] = t
	}
	switch e.Action {
	case "start", "run":
		if t.running { // its binary crashed, and it is run again
			t.failures++
		}
		t.running = true
	case "output":
		if text := strings.TrimSpace(e.Output); text != "" && !strings.HasPrefix(text, "--- ") && !strings.HasPrefix(text, "=== ") {
			t.last = text
		}
	case pass, fail, skip:
		t.running = false
		t.Seconds = max(t.Seconds, e.Elapsed)
		switch e.Action {
		case pass:
			t.passes++
		case fail:
			t.failures++
		}
	}
}

func results(tests map[string]*test) (all []result) {
	failed := make(map[string]bool) // packages with a failed test
	for _, t := range tests {
		t.Outcome = t.outcome()
		if t.Test != "" && (t.failures > 0 || t.Outcome == fail) {
			failed[t.Package] = true
		}
	}
	for _, t := range tests {
		if t.Test == "" && (t.Outcome != fail || failed[t.Package]) {
			continue
		}
		if t.Outcome == skip {
			t.Reason = withoutPlace(t.last)
		}
		all = append(all, t.result)
	}
	return sorted(all)
}

func (t *test) outcome() string {
	switch {
	case t.running || t.failures > 0 && t.passes == 0:
		return fail
	case t.failures > 0:
		return flaky
	case t.passes > 0:
		return pass
	}
	return skip
}

// withoutPlace removes the file and line that the testing package prints before a log line.
func withoutPlace(line string) string {
	if place, rest, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
		return rest
	}
	return line
}
