package config

import (
	"fmt"
	"slices"
)

// checker collects what is wrong with the meaning of a configuration.
type checker struct{ found []finding }

// finding is a problem whose line is not known yet.
type finding struct {
	place        *place
	text, remedy string
}

func (c *checker) add(at *place, remedy, format string, args ...any) {
	c.found = append(c.found, finding{at, fmt.Sprintf(format, args...), remedy})
}

// root is the place of a top-level field.
func root(name string) *place { return (*place)(nil).field(name) }

// locate gives each finding its line, and sorts them by it. Lines are looked up
// only now, in the text: a running gateway carries no tree of its file around.
func (s *source) locate(found []finding) Problems {
	problems := make(Problems, len(found))
	for i, f := range found {
		problems[i] = Problem{Field: f.place.String(), Text: f.text, Remedy: f.remedy}
	}
	if s == nil {
		return problems
	}
	tree, err := s.tree()
	if err != nil {
		return problems
	}
	for i, f := range found {
		node := f.place.find(tree)
		problems[i].Line, problems[i].Column = node.Line, node.Column
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	return problems
}
