// Package result holds what benchmarks found: one versioned document per run,
// its summary, its comparison with another run, and its forms for people and for
// benchstat. It measures nothing itself.
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

// Schema is the version of the document. Fields may be added under it; a change
// of what a field means needs another.
const Schema = "strait.dev/bench/v1"

// Run is one run of benchmarks on one machine. It is plain data, not safe for use
// while another goroutine changes it.
type Run struct {
	Schema  string    `json:"schema"`
	Time    time.Time `json:"time"`    // when it began
	Command string    `json:"command"` // what was typed
	Machine Machine   `json:"machine"`
	Samples []Sample  `json:"samples"` // in the order they were taken
}

// Sample is one repetition of one test with one subject.
type Sample struct {
	Test       string `json:"test"`           // a path, for instance "tcp/streams=4"
	Subject    string `json:"subject"`        // what was measured; empty if the test says so
	Mode       string `json:"mode,omitempty"` // the circumstances; may be empty
	Repetition int    `json:"repetition"`     // from 1
	// Metrics are values by unit, units as benchstat writes them: "ns/op", "B/s",
	// "pkts/s", "CPU-s/GB", "p99-ns", "loss". A unit that ends in "/s" is better
	// when it is more, every other one when it is less.
	Metrics map[string]float64 `json:"metrics"`
}

// New is an empty run of a command that begins now.
func New(command string, m Machine, now time.Time) *Run {
	return &Run{Schema: Schema, Time: now.UTC().Truncate(time.Second), Command: command, Machine: m}
}

// Add puts one sample to the run. It refuses names that benchstat could not read
// and values that are no numbers.
func (r *Run) Add(s Sample) error {
	if err := s.check(); err != nil {
		return err
	}
	r.Samples = append(r.Samples, s)
	return nil
}

func (s *Sample) check() error {
	if s.Test == "" {
		return fmt.Errorf("a sample has no test: give it a name")
	}
	for _, name := range []string{s.Test, s.Subject, s.Mode} {
		if strings.ContainsAny(name, " \t\r\n") {
			return fmt.Errorf("sample %s: the name %q has a space: benchstat would cut it there; write - or _", s.Test, name)
		}
	}
	if len(s.Metrics) == 0 {
		return fmt.Errorf("sample %s: it has no metric", s.Test)
	}
	for unit, v := range s.Metrics {
		if unit == "" || strings.ContainsAny(unit, " \t\r\n") {
			return fmt.Errorf("sample %s: %q is no unit: write one without spaces", s.Test, unit)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("sample %s: %v %s is no number: the test has measured nothing", s.Test, v, unit)
		}
	}
	return nil
}

// Of is the part of a run that is about one subject, without its name: two
// subjects of one run can be compared as if they were two runs.
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
