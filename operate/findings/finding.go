// Package findings defines the results of Strait's checks: each finding has a stable code,
// a severity, a remedy, and a documentation page.
package findings

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity is the severity of a finding.
type Severity string

// The severities, worst first. OK is reported too, to show that the check ran; Skipped
// means that it did not run.
const (
	Error   Severity = "error"   // Strait will not work
	Warning Severity = "warning" // Strait may not work, or not well
	Info    Severity = "info"    // for information
	Skipped Severity = "skipped"
	OK      Severity = "ok"
)

var order = []Severity{Error, Warning, Info, Skipped, OK}

// Finding is one result of one check about one subject.
type Finding struct {
	Code     string   `json:"code"` // of the Catalog
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"` // like "context a, node n1"
	Message  string   `json:"message"` // what was found, with values
	Remedy   string   `json:"remedy,omitempty"`
	Page     string   `json:"page,omitempty"`
}

// Pages is the base URL of the documentation pages.
const Pages = "https://strait.dev/docs/troubleshooting/"

// New returns a finding of a code in the catalog, with the remedy and the page of that
// code. It panics on an unknown code.
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

// Sort sorts findings by severity, worst first, then by code and subject.
func Sort(all []Finding) {
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(order, a.Severity), slices.Index(order, b.Severity)),
			cmp.Compare(a.Code, b.Code), cmp.Compare(a.Subject, b.Subject))
	})
}

// Worst returns the worst severity, OK if there are no findings.
func Worst(all []Finding) Severity {
	worst := OK
	for _, f := range all {
		if slices.Index(order, f.Severity) < slices.Index(order, worst) {
			worst = f.Severity
		}
	}
	return worst
}
