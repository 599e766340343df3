package findings

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table writes findings as text: the worst first, each with its remedy and page, with equal
// findings grouped; last, passed and skipped checks, one line each, and the totals.
func Table(w io.Writer, all []Finding) error {
	all = slices.Clone(all)
	Sort(all)
	var b strings.Builder
	for _, severity := range order {
		groups := alike(all, severity)
		if len(groups) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%s\n", strings.ToUpper(string(severity)))
		for _, g := range groups {
			g.write(&b)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s\n", Sum(all))
	_, err := io.WriteString(w, b.String())
	return err
}

// Sum returns the number of findings of each severity in one line.
func Sum(all []Finding) string {
	n := make(map[Severity]int)
	for _, f := range all {
		n[f.Severity]++
	}
	return fmt.Sprintf("%s, %s; %d info, %d ok, %d skipped",
		plural(n[Error], "error"), plural(n[Warning], "warning"), n[Info], n[OK], n[Skipped])
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// group is a set of findings with the same message about several subjects.
type group struct {
	Finding
	subjects []string
}

// alike returns the findings of a severity, grouped, in their order.
func alike(all []Finding, severity Severity) (groups []*group) {
	for _, f := range all {
		if f.Severity != severity {
			continue
		}
		i := slices.IndexFunc(groups, func(g *group) bool {
			return g.Code == f.Code && (severity == OK || g.Message == f.Message && g.Remedy == f.Remedy)
		})
		if i < 0 {
			groups = append(groups, &group{Finding: f})
			i = len(groups) - 1
		}
		groups[i].subjects = append(groups[i].subjects, f.Subject)
	}
	return groups
}

// subjectsShown is the maximum number of subjects that are printed; there may be thousands
// of nodes.
const subjectsShown = 4

// write writes one group. Writing to a strings.Builder cannot fail.
func (g *group) write(b *strings.Builder) {
	subjects := strings.Join(g.subjects[:min(len(g.subjects), subjectsShown)], "; ")
	if more := len(g.subjects) - subjectsShown; more > 0 {
		subjects += fmt.Sprintf("; and %d more", more)
	}
	switch {
	case g.Severity == OK && len(g.subjects) > 1:
		fmt.Fprintf(b, "  %s  %s: %d\n", g.Code, Catalog[g.Code].Title, len(g.subjects))
		return
	case g.Severity == OK:
		fmt.Fprintf(b, "  %s  %s: %s\n", g.Code, subjects, g.Message)
		return
	}
	fmt.Fprintf(b, "  %s  %s\n      %s\n", g.Code, subjects, g.Message)
	if g.Remedy != "" {
		fmt.Fprintf(b, "      → %s\n", g.Remedy)
	}
	if g.Page != "" {
		fmt.Fprintf(b, "      %s\n", g.Page)
	}
}
