// Package testlog reads the event streams of `go test -json` (go doc test2json).
package testlog

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// Outcomes of a test.
const (
	Pass  = "pass"
	Fail  = "fail"
	Skip  = "skip"
	Flaky = "flaky" // failed, and passed when run again
)

// Result is the outcome of a test in one stream.
type Result struct {
	Package string `json:"package"` // import path
	Test    string `json:"test"`    // with subtests, as in TestA/b; empty: the package as a whole
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"` // of a skipped test: its last line of output
	// Seconds is the duration of the longest run.
	Seconds float64 `json:"seconds"`
}

// Name is the package and the test.
func (r Result) Name() string { return strings.TrimSuffix(r.Package+"."+r.Test, ".") }

// event is one line of the stream.
type event struct {
	Action, Package, Test, Output string

	Elapsed float64 // seconds
}

// test collects the events of one test over all of its runs.
type test struct {
	Result
	failures, passes int
	running          bool
	last             string // line of output
}

// Read returns the results of a stream, sorted by name. A package has its own result only
// if it failed without a failed test: it did not build, or crashed. A test that started and
// did not end failed. Lines that are not events are ignored.
func Read(in io.Reader) ([]Result, error) {
	tests := make(map[string]*test)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil && e.Action != "" {
			add(tests, e)
		}
		if err == io.EOF {
			return results(tests), nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// ReadFile reads the stream in a file.
func ReadFile(name string) ([]Result, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return results, nil
}

// severity orders the outcomes of several streams: the highest one counts.
var severity = map[string]int{Skip: 1, Pass: 2, Flaky: 3, Fail: 4}

// Merge combines the results of each test in several streams, sorted by name: it failed if
// it failed in one, and passed if it passed in one and was skipped in the others.
func Merge(streams ...[]Result) []Result {
	byName := make(map[string]Result)
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

func sorted(all []Result) []Result {
	slices.SortFunc(all, func(a, b Result) int { return cmp.Compare(a.Name(), b.Name()) })
	return all
}

func add(tests map[string]*test, e event) {
	if e.Package == "" { // output of the compiler; the package's own fail event follows
		return
	}
	key := e.Package + "." + e.Test
	t := tests[key]
	if t == nil {
		t = &test{Result: Result{Package: e.Package, Test: e.Test}}
		tests[key] = t
	}
	switch e.Action {
	case "start", "run":
		t.running = true
	case "output":
		if text := strings.TrimSpace(e.Output); text != "" && !strings.HasPrefix(text, "--- ") && !strings.HasPrefix(text, "=== ") {
			t.last = text
		}
	case Pass, Fail, Skip:
		t.running = false
		t.Seconds = max(t.Seconds, e.Elapsed)
		switch e.Action {
		case Pass:
			t.passes++
		case Fail:
			t.failures++
		}
	}
}

func results(tests map[string]*test) (all []Result) {
	failed := make(map[string]bool) // packages with a failed test
	for _, t := range tests {
		t.Outcome = t.outcome()
		if t.Test != "" && (t.failures > 0 || t.Outcome == Fail) {
			failed[t.Package] = true
		}
	}
	for _, t := range tests {
		if t.Test == "" && (t.Outcome != Fail || failed[t.Package]) {
			continue
		}
		if t.Outcome == Skip {
			t.Reason = withoutPlace(t.last)
		}
		all = append(all, t.Result)
	}
	return sorted(all)
}

func (t *test) outcome() string {
	switch {
	case t.running || t.failures > 0 && t.passes == 0:
		return Fail
	case t.failures > 0:
		return Flaky
	case t.passes > 0:
		return Pass
	}
	return Skip
}

// withoutPlace removes the file and line that the testing package prints before a log line.
func withoutPlace(line string) string {
	if place, rest, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
		return rest
	}
	return line
}
