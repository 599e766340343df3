package findings

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Table writes findings for people: the worst first, each with its remedy and page, and
// what is alike in one place; last, what is well and what was not looked at, in a line for
// each check, and the sum.
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

// Sum says how many findings there are of each severity.
func Sum(all []Finding) string {
	n := make(map[Severity]int)
	for _, f := range all {
		n[f.Severity]++
	}
	return fmt.Sprintf("%s, %s; %d worth knowing, %d well, %d not looked at",
		plural(n[Error], "error"), plural(n[Warning], "warning"), n[Info], n[OK], n[Skipped])
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// group are findings that say the same of several subjects.
type group struct {
	Finding
	subjects []string
}

// alike are the findings of a severity, in their order.
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

// subjectsShown is how many are named; there may be thousands of nodes.
const subjectsShown = 4

// write writes one group. Nothing that it writes to fails.
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
