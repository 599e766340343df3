package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// outcome is how a test ended: pass, fail or skip.
type outcome struct{ result, reason string }

// results are the outcomes of tests, by full name.
type results map[string]outcome

// note adds an outcome. A test that ran twice has failed if it failed once, and
// passed if it was skipped once.
func (r results) note(name string, o outcome) {
	worse := map[string]int{"": 0, "skip": 1, "pass": 2, "fail": 3}
	if worse[o.result] > worse[r[name].result] {
		r[name] = o
	}
}

// readTally reads what test/run leaves: result, name and reason of each test, by tabs.
func readTally(in io.Reader) (results, error) {
	r := make(results)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), "\t", 3)
		if len(fields) == 3 {
			r.note(fields[1], outcome{fields[0], fields[2]})
		}
	}
	return r, lines.Err()
}

// runTests runs the tests of a list that need neither root nor a cluster.
func runTests(l *list) (results, error) {
	packages, names := make(map[string]bool), make(map[string]bool)
	for _, tests := range l.tests {
		for _, t := range tests {
			if t.target == "" {
				packages[t.pkg], names[regexp.QuoteMeta(t.name)] = true, true
			}
		}
	}
	pattern := "^(" + strings.Join(slices.Sorted(maps.Keys(names)), "|") + ")$"
	c := exec.Command("go", append([]string{"test", "-json", "-count=1", "-timeout=15m", "-run=" + pattern}, slices.Sorted(maps.Keys(packages))...)...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, fmt.Errorf("%w; install Go from https://go.dev/dl", err)
	}
	r := make(results)
	if err := r.read(out); err != nil {
		return nil, err
	}
	_ = c.Wait() // a failure is one of a test, and among the results, or is told by built
	return r, r.built(packages)
}

// read takes the output of `go test -json`, as `go doc test2json` describes it.
func (r results) read(in io.Reader) error {
	said := make(map[string]string) // the last line of each test
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		var e struct{ Action, Package, Test, Output string }
		if json.Unmarshal(line, &e) == nil {
			name := strings.TrimSuffix(e.Package+"."+e.Test, ".")
			switch text := strings.TrimSpace(e.Output); {
			case e.Action == "output" && text != "" && !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "==="):
				said[name] = text
			case e.Action == "build-output":
				fmt.Fprint(os.Stderr, e.Output)
			case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
				r.note(name, outcome{e.Action, said[name]})
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// built complains about packages without any outcome: they were not built.
func (r results) built(packages map[string]bool) error {
	for _, p := range slices.Sorted(maps.Keys(packages)) {
		if r[p].result == "" {
			return fmt.Errorf("%s gave no results; run: go vet %s", p, p)
		}
	}
	return nil
}
