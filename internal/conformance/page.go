package main

import (
	"fmt"
	"strings"
)

const head = `# Conformance

Every rule of the protocols that touch a gateway, and every threat and fault it has to stand, with the tests that hold it. This page is made from the names of the tests by ` + "`make conformance`" + `, which also runs them and prints the results; a test of the code fails when the page is not current or a row has no test. What each row says is in our own words: the source has the last one.

A test without a make target needs neither root nor a cluster. A row that is waived says why.
`

// markdown is the page of the docs: the table without the results of one machine.
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

// heldBy is the last column of a row.
func (l *list) heldBy(r row) string {
	if r.waived != "" {
		return "waived: " + r.waived
	}
	var tests []string
	for _, t := range l.tests[r.key()] {
		line := "`" + t.String() + "`"
		if t.target != "" {
			line += " (`make " + t.target + "`)"
		}
		tests = append(tests, line)
	}
	if tests == nil {
		return "missing"
	}
	return strings.Join(tests, "<br>")
}
