package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// readable is how long a line for people is, letters.
const readable = 90

// complain prints an error: for people in lines of a length that they can read, for
// programs in lines of its own.
func complain(to io.Writer, err error) {
	text := "strait: " + err.Error()
	if isTerminal(to) {
		text = wrap(text, readable)
	}
	fmt.Fprintln(to, text)
}

// wrap breaks lines between words where they are longer than wide. Further lines of one
// line are indented; what has no blank in it is never broken, so that it can be copied.
func wrap(text string, wide int) string {
	const indent = "  "
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		used := 0
		for j, word := range strings.Split(line, " ") {
			n := utf8.RuneCountInString(word)
			switch {
			case j == 0:
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
	}
	return b.String()
}
