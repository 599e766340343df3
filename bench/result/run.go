// Package result holds the results of benchmarks: one versioned document per run, its
// summary, its comparison with another run, and its output as text and for benchstat. It
// measures nothing itself.
//
//	Run ► JSON (Read, Write) ► benchstat's text (WriteBenchstat)
//	    ► Medians ► Table
//	    ► Compare, with a second Run ► ComparisonTable
package result

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Schema is the version of the document. Fields may be added without a new version; a
// change of a field's meaning needs one.
const Schema = "strait.dev/bench/v1"

// Run is one run of benchmarks on one machine. It is plain data, and not safe for use while
// another goroutine modifies it.
type Run struct {
	Schema  string    `json:"schema"`
	Time    time.Time `json:"time"`    // of the start
	Command string    `json:"command"` // the command line
	Machine Machine   `json:"machine"`
	Samples []Sample  `json:"samples"` // in order of time
}

// Sample is one repetition of one test with one subject.
type Sample struct {
	Test       string `json:"test"`           // for instance "tcp/streams=4"
	Subject    string `json:"subject"`        // what was measured; empty if Test names it
	Mode       string `json:"mode,omitempty"` // the conditions; may be empty
	Repetition int    `json:"repetition"`     // from 1
	// Metrics maps units to values, with units as benchstat writes them: "ns/op", "B/s",
	// "pkts/s", "CPU-s/GB", "p99-ns", "loss". More is better for units that end in "/s",
	// less for all others.
	Metrics map[string]float64 `json:"metrics"`
}

// New returns an empty run of a command that starts now.
func New(command string, m Machine, now time.Time) *Run {
	return &Run{Schema: Schema, Time: now.UTC().Truncate(time.Second), Command: command, Machine: m}
}

// Add adds a valid sample to the run.
func (r *Run) Add(s Sample) error {
	if err := s.check(); err != nil {
		return err
	}
	r.Samples = append(r.Samples, s)
	return nil
}

func (s *Sample) check() error {
	if s.Test == "" {
		return fmt.Errorf("a sample has no test name: set one")
	}
	for _, name := range []string{s.Test, s.Subject, s.Mode} {
		if strings.ContainsAny(name, " \t\r\n") {
			return fmt.Errorf("sample %s: the name %q contains a space, which benchstat cannot parse: use - or _", s.Test, name)
		}
	}
	if len(s.Metrics) == 0 {
		return fmt.Errorf("sample %s: no metric", s.Test)
	}
	for unit, v := range s.Metrics {
		if unit == "" || strings.ContainsAny(unit, " \t\r\n") {
			return fmt.Errorf("sample %s: %q is not a unit: use one without spaces", s.Test, unit)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("sample %s: %v %s is not a number: the test measured nothing", s.Test, v, unit)
		}
	}
	return nil
}

// Of returns the samples of one subject, without its name: two subjects of one run can be
// compared like two runs.
func (r *Run) Of(subject string) *Run {
	part := *r
	part.Samples = nil
	for _, s := range r.Samples {
		if s.Subject == subject {
			s.Subject = ""
			part.Samples = append(part.Samples, s)
		}
	}
	return &part
}
