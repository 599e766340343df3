package main

import (
	"fmt"
	"strings"
)

const head = `# Conformance

Every protocol rule that applies to a gateway, every threat and every fault, with the tests that hold it. ` + "`make conformance`" + ` generates this page from the names of the tests and prints their outcomes in the last run; a test fails when the page is out of date or a row has no test. The clauses are summaries: the source is authoritative.

A test without a make target is run by ` + "`make test`" + `. A waived row states the reason.
`

// markdown returns the documentation page: the table without the results of one machine.
func (l *list) markdown() string {
	var b strings.Builder
	b.WriteString(head)
	for _, s := range l.sections {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| row | what must hold | source | held by |\n|---|---|---|---|\n", s.title, s.about)
		for _, r := range s.rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name(), r.clause, r.source, l.heldBy(r))
		}
	}
	return b.String()
}

// heldBy returns the last column of a row.
func (l *list) heldBy(r row) string {
	if r.waived != "" {
		return "waived: " + r.waived
	}
	var tests []string
	for _, t := range l.tests[r.key()] {
		line := "`" + t.String() + "`"
		if t.target != coreTarget {
			line += " (`make " + t.target + "`)"
		}
		tests = append(tests, line)
	}
	if tests == nil {
		return "missing"
	}
	return strings.Join(tests, "<br>")
}
