// Package findings is what Strait's checks can find: each finding has a code that stays,
// a severity, a remedy, and a page of documentation.
package findings

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// Severities, the worst first. What is OK is told too, so that nobody wonders whether it
// was looked at; Skipped was not looked at.
const (
	Error   Severity = "error"   // it will not work
	Warning Severity = "warning" // it may not work, or not well
	Info    Severity = "info"    // good to know
	Skipped Severity = "skipped"
	OK      Severity = "ok"
)

var order = []Severity{Error, Warning, Info, Skipped, OK}

// Finding is one answer of one check about one subject.
type Finding struct {
	Code     string   `json:"code"` // of the Catalog
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // like "context a, node n1"
	Message  string   `json:"message"` // what is the case, with its values
	Remedy   string   `json:"remedy,omitempty"`
	Page     string   `json:"page,omitempty"`
}

// Pages is where the pages are.
const Pages = "https://strait.dev/docs/troubleshooting/"

// New is a finding of a code in the catalog: its remedy and its page are those of the
// code. It panics on a code that is not there.
func New(code string, severity Severity, subject, format string, values ...any) Finding {
	check, known := Catalog[code]
	if !known {
		panic("findings: unknown code " + code)
	}
	f := Finding{Code: code, Severity: severity, Subject: subject, Message: fmt.Sprintf(format, values...)}
	if severity == Error || severity == Warning {
		f.Remedy, f.Page = check.Remedy, Pages+code+".md"
	}
	return f
}

// Sort puts the worst first, and keeps together what has the same code.
func Sort(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity)),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Subject, b.Subject))
	})
}

// Worst is the worst severity, OK if there is nothing.
func Worst(all []Finding) Severity {
	worst := OK
	for _, f := range all {
		if slices.Index(order, f.Severity) < slices.Index(order, worst) {
			worst = f.Severity
		}
	}
	return worst
}
