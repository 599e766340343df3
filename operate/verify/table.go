package verify

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"strait.dev/strait/internal/columns"
)

// Table writes a report as text.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	for _, c := range r.Clusters {
		fmt.Fprintf(&b, "cluster %s (%s)", c.ID, c.Name)
		if c.GatewayNode != "" {
			fmt.Fprintf(&b, ": @gateway is node %s, @other is %s", c.GatewayNode, columns.OrDash(c.OtherNode))
		}
		b.WriteByte('\n')
	}
	if r.MTU > 0 {
		fmt.Fprintf(&b, "MTU %d\n", r.MTU)
	}
	list(&b, r.of(OfPeering))
	r.matrix(&b)
	list(&b, append(r.of(OfFlow), r.of(OfEncryption)...))
	r.explain(&b)
	for _, kept := range r.Kept {
		fmt.Fprintf(&b, "kept: %s\n", kept)
	}
	fmt.Fprintf(&b, "\n%d passed, %d failed, %d skipped in %.0f s\n", r.Counts.Passed, r.Counts.Failed, r.Counts.Skipped, r.Seconds)
	_, err := io.WriteString(w, b.String())
	return err
}

var marks = map[Outcome]string{Passed: "✓", Failed: "✗", Skipped: "–"}

func list(b *strings.Builder, checks []Check) {
	if len(checks) > 0 {
		b.WriteByte('\n')
	}
	for _, c := range checks {
		fmt.Fprintf(b, "%s %s", marks[c.Outcome], c.Name())
		if c.Detail != "" {
			fmt.Fprintf(b, ": %s", c.Detail)
		}
		b.WriteByte('\n')
	}
}

// matrix writes a block for each direction and IP family: a line for each source and
// destination, a mark for each type of packet.
func (r *Report) matrix(b *strings.Builder) {
	checks := r.of(OfMatrix)
	for len(checks) > 0 {
		first := checks[0]
		same := func(c Check) bool { return c.From == first.From && c.To == first.To && c.Family == first.Family }
		var one []Check
		for _, c := range checks {
			if same(c) {
				one = append(one, c)
			}
		}
		checks = slices.DeleteFunc(checks, same)
		fmt.Fprintf(b, "\n%s to %s, %s", first.From, first.To, first.Family)
		if first.Source == "" {
			fmt.Fprintf(b, ": – %s\n", first.Detail)
			continue
		}
		// The reasons of skipped rows are printed after all blocks.
		if one = slices.DeleteFunc(one, func(c Check) bool { return c.What == wholeRow }); len(one) == 0 {
			b.WriteString(": – all checks were skipped\n")
			continue
		}
		block(b, one)
	}
}

// block writes the lines of one direction and IP family. Writing to a strings.Builder
// cannot fail.
func block(b *strings.Builder, checks []Check) {
	var used []string
	for _, column := range matrixColumns {
		if slices.ContainsFunc(checks, func(c Check) bool { return c.What == column }) {
			used = append(used, column)
		}
	}
	const left = 32
	b.WriteString("\n  " + pad("", left))
	last := ""
	for _, column := range used {
		protocol, _, _ := strings.Cut(column, " ")
		if protocol != last {
			b.WriteString(pad(" "+strings.ToUpper(protocol), groupWidth(used, protocol)))
		}
		last = protocol
	}
	trim(b)
	b.WriteString("\n  " + pad("FROM", 15) + pad("TO", left-15))
	for _, column := range used {
		_, size, _ := strings.Cut(column, " ")
		b.WriteString(" " + pad(size, cellWidth(column)))
	}
	trim(b)
	b.WriteByte('\n')
	for len(checks) > 0 {
		row := checks[0]
		same := func(c Check) bool { return c.Source == row.Source && c.Destination == row.Destination }
		fmt.Fprintf(b, "  %s%s", pad(row.Source, 15), pad(row.Destination, left-15))
		for _, column := range used {
			mark := ""
			for _, c := range checks {
				if same(c) && c.What == column {
					mark = marks[c.Outcome]
				}
			}
			b.WriteString(" " + pad(mark, cellWidth(column)))
		}
		trim(b)
		b.WriteByte('\n')
		checks = slices.DeleteFunc(checks, same)
	}
}

func cellWidth(column string) int {
	_, size, _ := strings.Cut(column, " ")
	return max(len(size), 3)
}

// groupWidth returns the total width of the columns of a protocol.
func groupWidth(used []string, protocol string) (width int) {
	for _, column := range used {
		if strings.HasPrefix(column, protocol+" ") {
			width += 1 + cellWidth(column)
		}
	}
	return width
}

func trim(b *strings.Builder) {
	text := strings.TrimRight(b.String(), " ")
	b.Reset()
	b.WriteString(text)
}

func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0))
}
