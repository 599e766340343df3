// Package columns writes tables as text: columns of equal width, two spaces apart. It imports
// nothing of this module.
package columns

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Blank is a cell without text. A cell with an empty value is a dash.
const Blank = " "

// Table collects the rows of a table. The zero value has none. Not safe for concurrent use.
type Table struct{ rows strings.Builder }

// Row adds a row. Tabs and line breaks in cells become spaces.
func (t *Table) Row(cells ...any) {
	for i, cell := range cells {
		if i > 0 {
			t.rows.WriteByte('\t')
		}
		t.rows.WriteString(oneLine.Replace(OrDash(cell)))
	}
	t.rows.WriteByte('\n')
}

var oneLine = strings.NewReplacer("\t", " ", "\n", " ", "\v", " ", "\f", " ")

// WriteTo writes the rows, with no space at the end of a line, in one write. It implements
// io.WriterTo.
func (t *Table) WriteTo(to io.Writer) (int64, error) {
	var aligned, text strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(w, t.rows.String()) // writing to a strings.Builder cannot fail
	_ = w.Flush()
	for line := range strings.Lines(aligned.String()) {
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	n, err := io.WriteString(to, text.String())
	return int64(n), err
}

// OrDash formats a value, or returns a dash for an empty text and for an address that is not valid.
func OrDash(value any) string {
	if v, ok := value.(interface{ IsValid() bool }); ok && !v.IsValid() {
		return "-"
	}
	if text := fmt.Sprint(value); text != "" {
		return text
	}
	return "-"
}
