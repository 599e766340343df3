package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"unicode/utf8"
)

// errorPrefix begins every line of an error.
const errorPrefix = "strait: "

// lineWidth is the longest line of an error on a terminal, in characters.
const lineWidth = 90

// printError prints an error with the prefix on each line. On a terminal long lines are
// wrapped.
func printError(to io.Writer, err error) {
	text := strings.TrimRight(withoutSyscalls(err), "\n")
	for line := range strings.SplitSeq(text, "\n") {
		if isTerminal(to) {
			line = strings.TrimPrefix(wrap(errorPrefix+line, lineWidth), errorPrefix)
		}
		paint(to, errorPrefix, red)
		fmt.Fprintln(to, line)
	}
}

// withoutSyscalls is the text of an error in which a file error names the file and the
// reason, without the system call: "open /x: no such file" becomes "/x: no such file".
func withoutSyscalls(err error) string {
	text := err.Error()
	var visit func(error)
	visit = func(err error) {
		if at, ok := err.(*fs.PathError); ok { //nolint:errorlint // visit unwraps step by step
			text = strings.ReplaceAll(text, at.Error(), at.Path+": "+at.Err.Error())
		}
		if all, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range all.Unwrap() {
				visit(one)
			}
		} else if next := errors.Unwrap(err); next != nil {
			visit(next)
		}
	}
	visit(err)
	return text
}

// wrap breaks a line between words where it is longer than wide. Continuation lines are
// indented. A word is never broken, so that it can be copied.
func wrap(line string, wide int) string {
	const indent = "  "
	var b strings.Builder
	used := 0
	for i, word := range strings.Split(line, " ") {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case used+1+n > wide:
			b.WriteString("\n" + indent)
			used = len(indent)
		default:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
	}
	return b.String()
}
