package config

import (
	"errors"
	"fmt"
	"strings"
)

// Problem is one problem of a configuration.
type Problem struct {
	Line, Column int    // position in the file, from 1; 0: the configuration was built in code
	Field        string // such as overlay.nodes[3].vni; empty: the document as a whole
	Text         string // what is wrong
	Remedy       string // what to do about it
}

// message returns the problem without its position.
func (p Problem) message() string {
	text := p.Text + "; " + p.Remedy
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	return text
}

// Problems are all problems of a configuration, in line order.
type Problems []Problem

// shown is the maximum number of problems in an error text: enough to work on, and still one message when thousands of
// nodes have the same problem.
const shown = 50

// Error returns one line per problem:
//
//	line 12: overlay.nodes[0].vni: 0 is not a VNI; use 1 to 16777215
func (p Problems) Error() string { return p.text("line ", "") }

// text formats the problems. Each line number is between before and a colon; instead replaces a missing line number.
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

// fileError is an error about a configuration file.
type fileError struct {
	name string
	err  error
}

// WithFile adds the file name to an error of Parse or Validate: each problem then starts with "gateway.yaml:12: ". It
// keeps err for errors.Is and errors.As, and returns nil for nil.
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
