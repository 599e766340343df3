package config

import (
	"fmt"
	"slices"
)

// checker collects semantic problems of a configuration.
type checker struct{ found []finding }

// finding is a problem without a line number.
type finding struct {
	place        *place
	text, remedy string
}

func (c *checker) add(at *place, remedy, format string, args ...any) {
	c.found = append(c.found, finding{at, fmt.Sprintf(format, args...), remedy})
}

// root returns the place of a top-level field.
func root(name string) *place { return (*place)(nil).field(name) }

// locate adds line numbers to the findings and sorts them. The lines are looked up in the text only when there are
// findings, so that a running gateway keeps no syntax tree of its file.
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
