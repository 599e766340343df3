package diagnose

import (
	"fmt"
	"io"
	"strings"
)

// evidenceShown is the maximum number of observations that are printed for a cause; there may be thousands of nodes.
const evidenceShown = 4

// Table writes a report as text: the causes, numbered, each with its evidence, remedy and page, and what was looked at.
func Table(w io.Writer, r *Report) error {
	var b strings.Builder
	for i, c := range r.Causes {
		fmt.Fprintf(&b, "%d. %s (%s)\n", i+1, c.Title, c.Code)
		for _, e := range c.Evidence[:min(len(c.Evidence), evidenceShown)] {
			fmt.Fprintf(&b, "     %s\n", e)
		}
		if more := len(c.Evidence) - evidenceShown; more > 0 {
			fmt.Fprintf(&b, "     and %d more\n", more)
		}
		fmt.Fprintf(&b, "   → %s\n", c.Remedy)
		if c.Page != "" {
			fmt.Fprintf(&b, "     %s\n", c.Page)
		}
		b.WriteByte('\n')
	}
	if r.Well {
		b.WriteString("nothing is wrong\n")
	}
	fmt.Fprintf(&b, "looked at %d peerings, %d findings of preflight and %d checks with packets", r.Checks.Peerings, r.Checks.Findings, r.Checks.Packets)
	if r.Well && r.Checks.Warnings > 0 {
		fmt.Fprintf(&b, "; strait preflight shows %d warnings", r.Checks.Warnings)
	}
	if r.Checks.NoPods {
		b.WriteString("; without --no-pods nodes and packets are looked at too")
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}
