// Package report draws the figures of a run: HTML is one page with all tables and plots
// for a browser, SVG is a single plot for the documentation. Neither loads anything from
// the network.
//
// page.html and bars.svg are the templates, plot.go lays bars out, this file groups the
// figures of a page, figure.go selects those of a single plot.
package report

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"strait.dev/strait/bench/result"
)

//go:embed page.html
var pageText string

//go:embed bars.svg
var barsText string

var page = template.Must(template.Must(template.New("page").Parse(pageText)).Parse(barsText))

// HTML writes all figures of a run as one HTML page.
func HTML(w io.Writer, r *result.Run) error {
	return page.Execute(w, struct {
		*result.Run
		Date     string
		Sections []*section
	}{r, r.Time.Format("2006-01-02 15:04:05 MST"), sectionsOf(r.Samples)})
}

// section has the figures of one kind of test.
type section struct {
	Name  string // first part of the test names
	Plots []*plot
	Rows  []row
}

// row is a row of a section's table.
type row struct {
	result.Summary
	MedianText, MinText, MaxText string
}

// sectionsOf groups the figures of a run by kind of test, then by unit.
func sectionsOf(samples []result.Sample) (all []*section) {
	byName := make(map[string]*section)
	for _, s := range result.Medians(samples) {
		name, rest, _ := strings.Cut(s.Test, "/")
		part := byName[name]
		if part == nil {
			part = &section{Name: name}
			byName[name] = part
			all = append(all, part)
		}
		part.Rows = append(part.Rows, row{
			s, result.Format(s.Median, s.Unit), result.Format(s.Min, s.Unit), result.Format(s.Max, s.Unit),
		})
		part.plot(s.Unit).add(label(rest, s.Mode, s.Subject), s, valuesOf(samples, s.Key))
	}
	for _, part := range all {
		for _, p := range part.Plots {
			p.layOut()
		}
	}
	return all
}

// plot returns the section's plot of a unit, and adds it if missing.
func (s *section) plot(unit string) *plot {
	for _, p := range s.Plots {
		if p.Unit == unit {
			return p
		}
	}
	p := &plot{Unit: unit, More: result.MoreIsBetter(unit)}
	s.Plots = append(s.Plots, p)
	return p
}

// label joins the parts of a bar's name that are not empty.
func label(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, p)
		}
	}
	return strings.Join(some, " · ")
}

// valuesOf returns all repetitions of one figure.
func valuesOf(samples []result.Sample, k result.Key) (values []float64) {
	for _, s := range samples {
		if v, ok := s.Metrics[k.Unit]; ok && s.Test == k.Test && s.Mode == k.Mode && s.Subject == k.Subject {
			values = append(values, v)
		}
	}
	return values
}
