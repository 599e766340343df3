package columns

import (
	"net/netip"
	"strings"
	"testing"
)

func TestColumnsAreAlignedAndEmptyValuesAreDashes(t *testing.T) {
	t.Parallel()
	var table Table
	table.Row(Blank, "NAME", "ADDRESS", "NOTE")
	table.Row("✓", "a-long-name", netip.MustParseAddr("192.0.2.1"), "two\nlines\tand a tab ")
	table.Row("✗", "", netip.Addr{}, Blank)
	table.Row("a row of one cell that is longer than the column")
	var b strings.Builder
	n, err := table.WriteTo(&b)
	const want = `   NAME         ADDRESS    NOTE
✓  a-long-name  192.0.2.1  two lines and a tab
✗  -            -
a row of one cell that is longer than the column
`
	if b.String() != want || n != int64(len(want)) || err != nil {
		t.Errorf("%d bytes, %v:\n%s\nwant\n%s", n, err, b.String(), want)
	}
}

func TestATableWithoutRowsIsEmpty(t *testing.T) {
	t.Parallel()
	var table Table
	var b strings.Builder
	if n, err := table.WriteTo(&b); n != 0 || err != nil || b.Len() != 0 {
		t.Errorf("%d bytes, %v, %q", n, err, b.String())
	}
}
