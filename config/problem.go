package config

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	Line, Column int    // where in the file, from 1; 0: the configuration was built in code
	Field        string // such as overlay.nodes[3].vni; empty: the document as a whole
	Text         string // what is wrong
	Remedy       string // what to do about it
}

// message is the problem without its place.
func (p Problem) message() string {
	text := p.Text + "; " + p.Remedy
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	return text
}

// Problems are all problems of a configuration, in the order of its lines.
type Problems []Problem

// shown is how many problems an error text holds: enough to work on, and still
// one message when every one of thousands of nodes has the same fault.
const shown = 50

// Error has one line per problem:
//
//	line 12: overlay.nodes[0].vni: 0 is not a VNI; use 1 to 16777215
func (p Problems) Error() string { return p.text("line ", "") }

// text renders the problems, each line number between before and the colon;
// instead is what stands in place of a missing line number.
func (p Problems) text(before, instead string) string {
	var lines []string
	for _, problem := range p[:min(len(p), shown)] {
		place := instead
		if problem.Line > 0 {
			place = fmt.Sprintf("%s%d: ", before, problem.Line)
		}
		lines = append(lines, place+problem.message())
	}
	if len(p) > shown {
		lines = append(lines, fmt.Sprintf("and %d more problems", len(p)-shown))
	}
	return strings.Join(lines, "\n")
}

// fileError is an error about a configuration that came from a file.
type fileError struct {
	name string
	err  error
}

// WithFile adds the name of the file to an error of Parse or Validate: each
// problem then begins with "gateway.yaml:12: ". It wraps err, and is nil for nil.
func WithFile(name string, err error) error {
	if err == nil {
		return nil
	}
	return &fileError{name, err}
}

func (e *fileError) Error() string {
	var problems Problems
	if errors.As(e.err, &problems) {
		return problems.text(e.name+":", e.name+": ")
	}
	return e.name + ": " + e.err.Error()
}

func (e *fileError) Unwrap() error { return e.err }
