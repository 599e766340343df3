package result

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

// Table writes summaries as text, one figure per line.
func Table(to io.Writer, all []Summary) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TEST\tMODE\tSUBJECT\tMEDIAN\tSPREAD\tN\tUNIT")
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.Test, dash(s.Mode), dash(s.Subject),
			Format(s.Median, s.Unit), s.SpreadText(), s.N, s.Unit)
	}
	return w.Flush()
}

// ComparisonTable writes differences as text, one figure per line. A change that is not
// significant is a "~".
func ComparisonTable(to io.Writer, all []Difference) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TEST\tMODE\tSUBJECT\tUNIT\tOLD\tNEW\tCHANGE\tP\tN\t")
	for _, d := range all {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.3f\t%d+%d\t%s\n", d.Test, dash(d.Mode), dash(d.Subject), d.Unit,
			Format(d.Old.Median, d.Unit), Format(d.New.Median, d.Unit), d.Change(), d.P, d.Old.N, d.New.N, d.Verdict())
	}
	return w.Flush()
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

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// SpreadText formats the spread, "-" if there is only one value.
func (s Stats) SpreadText() string {
	if s.N < 2 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*s.Spread())
}
