package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// event is one line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// name is how the tally calls a test: its package and, but for the package as a
// whole, its own name.
func (e event) name() string {
	if e.Test == "" {
		return e.Package
	}
	return e.Package + "." + e.Test
}

// summary turns events into text for a person and lines for the tally.
type summary struct {
	out, tally io.Writer
	passed     bool                // show passed tests
	running    map[string][]string // output of tests that have not ended
	failed     map[string]bool     // packages with a failed test
	anyFailed  bool
}

func newSummary(out, tally io.Writer, passed bool) *summary {
	return &summary{out: out, tally: tally, passed: passed,
		running: make(map[string][]string), failed: make(map[string]bool)}
}

// line takes one line of input. What is no event is shown as it is.
func (s *summary) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		s.text(string(line))
		return
	}
	switch {
	case e.Action == "build-output":
		s.text(e.Output)
	case e.Test == "":
		s.pkg(e)
	default:
		s.test(e)
	}
}

// pkg takes an event of a package as a whole.
func (s *summary) pkg(e event) {
	switch e.Action {
	case "output":
		if e.Output != "PASS\n" && !strings.HasSuffix(e.Output, "[no test files]\n") {
			s.text(e.Output)
		}
	case "fail":
		if !s.failed[e.Package] { // it did not build, or died outside of a test
			s.record("fail", e.name(), "")
		}
	}
}

// text shows a line that belongs to no test. One that says what was left out
// counts as a skipped test.
func (s *summary) text(line string) {
	fmt.Fprint(s.out, line)
	if what, reason, ok := strings.Cut(strings.TrimSpace(line), " left out: "); ok {
		s.record("skip", what, reason)
	}
}

func (s *summary) test(e event) {
	name := e.name()
	switch e.Action {
	case "run":
		s.running[name] = nil
	case "output":
		s.running[name] = append(s.running[name], e.Output)
	case "pass":
		if s.passed {
			fmt.Fprintf(s.out, "--- PASS: %s (%.2fs)\n", e.Test, e.Elapsed)
		}
		s.ended(name, "pass", "")
	case "skip":
		reason := reasonOf(s.running[name])
		fmt.Fprintf(s.out, "--- SKIP: %s: %s\n", name, reason)
		s.ended(name, "skip", reason)
	case "fail":
		s.failed[e.Package] = true
		fmt.Fprint(s.out, strings.Join(s.running[name], ""))
		s.ended(name, "fail", "")
	}
}

func (s *summary) ended(name, result, reason string) {
	delete(s.running, name)
	s.record(result, name, reason)
}

func (s *summary) record(result, name, reason string) {
	s.anyFailed = s.anyFailed || result == "fail"
	fmt.Fprintf(s.tally, "%s\t%s\t%s\n", result, name, reason)
}

// end fails the tests that never ended, and gives the exit status.
func (s *summary) end() int {
	for _, name := range slices.Sorted(maps.Keys(s.running)) {
		fmt.Fprintf(s.out, "%s--- FAIL: %s: did not end\n", strings.Join(s.running[name], ""), name)
		s.record("fail", name, "")
	}
	if s.anyFailed {
		return 1
	}
	return 0
}

// reasonOf is the last thing a skipped test said, without the place in the code.
func reasonOf(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "=== ") {
			continue
		}
		if place, rest, ok := strings.Cut(line, ": "); ok && strings.Contains(place, "_test.go:") {
			return rest
		}
		return line
	}
	return "no reason given"
}
