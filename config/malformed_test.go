package config

import (
	"strings"
	"testing"
)

// malformed is the valid document with one text in it replaced, and all that is
// said about it.
type malformed struct {
	name     string
	old, new string
	want     string
}

func testMalformed(t *testing.T, cases []malformed) {
	document := valid(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(document, c.old) {
				t.Fatalf("the document does not contain %q", c.old)
			}
			err := check(strings.Replace(document, c.old, c.new, 1))
			if err == nil {
				t.Fatalf("no error, want\n%s", c.want)
			}
			if err.Error() != c.want {
				t.Errorf("got\n%s\nwant\n%s", err, c.want)
			}
		})
	}
}
