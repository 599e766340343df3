package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// escaping returns a writer of the same text in which control characters, and others that are
// not printed, are written as \u001b: a terminal acts on them, and remote clusters decide
// parts of what commands print. Newlines and tabs stay. JSON means the same afterwards.
//
// execute puts it around the outputs of all commands. A command that writes no text uses
// unescaped.
func escaping(w io.Writer) io.Writer { return &escapingWriter{to: w} }

// unescaped returns the writer that an escaping one writes to.
func unescaped(w io.Writer) io.Writer {
	if e, ok := w.(*escapingWriter); ok {
		return e.to
	}
	return w
}

// escapingWriter is safe for concurrent use if its destination is.
type escapingWriter struct {
	to io.Writer

	mu   sync.Mutex
	rest []byte // of the last write: the beginning of a character
}

// Write implements io.Writer.
func (w *escapingWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var escaped []byte
	escaped, w.rest = escape(append(w.rest, text...))
	if _, err := w.to.Write(escaped); err != nil {
		return 0, err
	}
	return len(text), nil
}

// escape returns a text with its escape sequences, and the incomplete character at its end.
func escape(text []byte) (escaped, rest []byte) {
	escaped = make([]byte, 0, len(text))
	for len(text) > 0 && utf8.FullRune(text) {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			escaped = append(escaped, `\ufffd`...)
		case r == '\n', r == '\t', strconv.IsPrint(r):
			escaped = append(escaped, text[:size]...)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				escaped = fmt.Appendf(escaped, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return escaped, text
}

// isEscaped reports whether a text has escape sequences when it is written.
func isEscaped(text []byte) bool {
	escaped, _ := escape(text)
	return !bytes.Equal(escaped, text)
}
