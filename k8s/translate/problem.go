package translate

import (
	"cmp"
	"slices"
)

// Problem is an element that was left out of a configuration, and the reason.
type Problem struct {
	Object string // such as NodeAttachment node-1
	Field  string // such as spec.podCIDRs; empty: the object as a whole
	Text   string // what is wrong
	Remedy string // what to do about it
}

// String returns the problem in one line.
func (p Problem) String() string {
	text := p.Text + "; " + p.Remedy
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	return p.Object + ": " + text
}

func sorted(problems []Problem) []Problem {
	slices.SortFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Field, b.Field),
			cmp.Compare(a.Text, b.Text), cmp.Compare(a.Remedy, b.Remedy))
	})
	return slices.Compact(problems)
}
