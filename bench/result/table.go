package result

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"strait.dev/strait/internal/columns"
)

// Table writes summaries as text, one figure per line.
func Table(to io.Writer, all []Summary) error {
	var table columns.Table
	table.Row("TEST", "MODE", "SUBJECT", "MEDIAN", "SPREAD", "N", "UNIT")
	for _, s := range all {
		table.Row(s.Test, s.Mode, s.Subject, Format(s.Median, s.Unit), s.SpreadText(), s.N, s.Unit)
	}
	_, err := table.WriteTo(to)
	return err
}

// ComparisonTable writes differences as text, one figure per line.
func ComparisonTable(to io.Writer, all []Difference) error {
	var table columns.Table
	table.Row("TEST", "MODE", "SUBJECT", "UNIT", "OLD", "NEW", "CHANGE", "P", "N", columns.Blank)
	for _, d := range all {
		table.Row(d.Test, d.Mode, d.Subject, d.Unit, Format(d.Old.Median, d.Unit), Format(d.New.Median, d.Unit), d.Change(),
			fmt.Sprintf("%.3f", d.P), fmt.Sprintf("%d+%d", d.Old.N, d.New.N), cmp.Or(d.Verdict(), columns.Blank))
	}
	_, err := table.WriteTo(to)
	return err
}

// Change formats the change: "+12.3 %", or "~" if it is not significant.
func (d Difference) Change() string {
	switch delta := d.Delta(); {
	case !d.Significant():
		return "~"
	case math.IsInf(delta, 0):
		return "from 0"
	default:
		return fmt.Sprintf("%+.1f %%", 100*delta)
	}
}

// Verdict is "better", "worse", or empty if the change is not significant.
func (d Difference) Verdict() string {
	switch {
	case !d.Significant() || d.Delta() == 0:
		return ""
	case d.Better():
		return "better"
	}
	return "worse"
}

// SpreadText formats the spread, "-" if there is only one value.
func (s Stats) SpreadText() string {
	if s.N < 2 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*s.Spread())
}
