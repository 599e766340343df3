package rig

import (
	"fmt"
	"slices"
	"strings"

	"strait.dev/strait/bench/result"
)

// figure identifies one median of a run.
type figure struct {
	test    string
	mode    Mode
	subject string
	unit    string
}

// figures looks up medians; ok is false for a figure that was not measured.
type figures func(figure) (median float64, ok bool)

func medians(run *result.Run) figures {
	all := make(map[figure]float64)
	for _, s := range result.Medians(run.Samples) {
		all[figure{s.Test, Mode(s.Mode), s.Subject, s.Unit}] = s.Median
	}
	return func(f figure) (float64, bool) {
		m, ok := all[f]
		return m, ok
	}
}

// limit is one bound on figures.
type limit struct {
	text    string // as in the demand: "≤ 0.25 × P"
	atMost  bool
	bound   float64
	measure func(figures) []float64 // the bounded value; of several the worst counts
	format  string                  // of a measured value
}

// demand is one line of the table: a requirement on strait.
type demand struct {
	measure string
	limits  []limit
}

// Verdict is the result of a demand.
type Verdict struct {
	Measure, Demand, Measured string
	Met                       string // one of the constants below
}

const (
	met         = "met"
	missed      = "missed"
	notMeasured = "not measured" // or not completely
)

func (d demand) verdict(all figures) Verdict {
	v := Verdict{Measure: d.measure, Met: met}
	var demands, measured []string
	for _, l := range d.limits {
		demands = append(demands, l.text)
		worst, ok := l.worst(all)
		if !ok {
			measured = append(measured, "–")
			if v.Met == met {
				v.Met = notMeasured
			}
			continue
		}
		measured = append(measured, fmt.Sprintf(l.format, worst))
		if !l.keeps(worst) {
			v.Met = missed
		}
	}
	v.Demand, v.Measured = strings.Join(demands, ", "), strings.Join(measured, ", ")
	return v
}

// worst returns the measured value that exceeds the limit most, or is nearest to it.
func (l limit) worst(all figures) (worst float64, ok bool) {
	values := l.measure(all)
	if len(values) == 0 {
		return 0, false
	}
	if l.atMost {
		return slices.Max(values), true
	}
	return slices.Min(values), true
}

func (l limit) keeps(v float64) bool {
	if l.atMost {
		return v <= l.bound
	}
	return v >= l.bound
}

// ratio is one figure as a multiple of another.
type ratio struct{ of, to figure }

// ratios returns the ratios whose figures were measured.
func ratios(pairs ...ratio) func(figures) []float64 {
	return func(all figures) (values []float64) {
		for _, p := range pairs {
			of, ok := all(p.of)
			to, too := all(p.to)
			if ok && too && to != 0 {
				values = append(values, of/to)
			}
		}
		return values
	}
}

// against returns the ratios of strait to another subject in the same tests.
func against(subject string, mode Mode, unit string, tests ...string) func(figures) []float64 {
	var pairs []ratio
	for _, t := range tests {
		pairs = append(pairs, ratio{figure{t, mode, nameStrait, unit}, figure{t, mode, subject, unit}})
	}
	return ratios(pairs...)
}

func atMost(bound float64, of string, measure func(figures) []float64) limit {
	return limit{fmt.Sprintf("≤ %.2f%s", bound, of), true, bound, measure, "%.2f"}
}

func atLeast(bound float64, of string, measure func(figures) []float64) limit {
	return limit{fmt.Sprintf("≥ %.2f%s", bound, of), false, bound, measure, "%.2f"}
}

// Verdicts returns the results of all demands for a run.
func Verdicts(run *result.Run) (all []Verdict) {
	found := medians(run)
	for _, d := range demands() {
		all = append(all, d.verdict(found))
	}
	return all
}
