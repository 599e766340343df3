package demo

import (
	"errors"
	"strings"
	"testing"

	"strait.dev/strait/internal/plan"
)

func TestCompareReportsTheFirstDifference(t *testing.T) {
	t.Parallel()
	right := unlinked().expectedPath(plan.V4)
	wrong := unlinked().expectedPath(plan.V4)
	wrong[3].Source = "10.0.1.5" // not translated by the receiving gateway
	for _, c := range []struct {
		name               string
		seen               []Observation
		expected, reported string
	}{
		{"another address", wrong, "the request at gateway b, to node, from 10.72.1.5 to 10.0.2.9", "from 10.0.1.5 to 10.0.2.9"},
		{"lost in transit", right[:5], "the reply at gateway b, into tunnel, from 10.0.2.9 to 10.0.1.5", "nothing after 5 stages"},
		{"seen once more", append(unlinked().expectedPath(plan.V4), right[0]), "8 stages", "also the request at gateway a, from node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m *mismatch
			if !errors.As(compare(c.seen, right), &m) {
				t.Fatal("no mismatch")
			}
			if m.expected != c.expected || !strings.Contains(m.seen, c.reported) {
				t.Errorf("%v", m)
			}
		})
	}
	if err := compare(right, right); err != nil {
		t.Error(err)
	}
}
