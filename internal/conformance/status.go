package main

import (
	"fmt"
	"slices"
	"strings"

	"strait.dev/strait/internal/testlog"
)

// The states of a row.
const (
	passed  = "pass"
	failed  = "FAIL"
	missing = "MISSING"
	waived  = "waived"
	skipped = "skipped"
	notRun  = "not run" // none of its tests has an outcome
)

// status returns the state of a row, and a remark.
func (l *list) status(r row, results results) (state, remark string) {
	tests := l.tests[r.key()]
	switch {
	case r.waived != "":
		return waived, r.waived
	case len(tests) == 0:
		return missing, ""
	}
	var bad, targets []string
	reason := ""
	passes := 0
	for _, t := range tests {
		switch o := results[t.fullName()]; o.Outcome {
		case testlog.Pass, testlog.Flaky:
			passes++
		case testlog.Fail:
			bad = append(bad, t.String())
		case testlog.Skip:
			reason = o.Reason
		default:
			if !slices.Contains(targets, "make "+t.target) {
				targets = append(targets, "make "+t.target)
			}
		}
	}
	elsewhere := strings.Join(targets, ", ")
	switch {
	case len(bad) > 0:
		return failed, strings.Join(bad, " ")
	case passes > 0 && elsewhere != "":
		return passed, "more in " + elsewhere
	case passes > 0:
		return passed, ""
	case elsewhere != "":
		return notRun, elsewhere
	}
	return skipped, reason
}

// missingRows returns the rows without a test.
func (l *list) missingRows() (rows []row) {
	for _, s := range l.sections {
		for _, r := range s.rows {
			if r.waived == "" && len(l.tests[r.key()]) == 0 {
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// name returns the name of a row in both tables.
func (r row) name() string {
	if r.column == "" {
		return r.id
	}
	return fmt.Sprintf("%s, %s", r.id, r.column)
}
