package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"

	"golang.org/x/term"
)

// isTerminal reports whether a writer writes to a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := unescaped(w).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalOf returns the terminal that a writer writes to, for control sequences; nil: none.
func terminalOf(w io.Writer) io.Writer {
	f, ok := unescaped(w).(*os.File)
	if !ok || !isTerminal(f) || !interpretsSequences(f) {
		return nil
	}
	return f
}

// color is a parameter of the escape sequence that selects a colour.
type color string

const (
	red    color = "31"
	green  color = "32"
	yellow color = "33"
)

// colored reports whether output to a writer has colours: on a terminal, unless NO_COLOR
// is set (https://no-color.org) or the terminal has no colours.
func colored(w io.Writer) bool { return terminalOf(w) != nil && colorsAllowed() }

func colorsAllowed() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// paint writes a text of Strait, in a colour where the writer shows colours.
func paint(w io.Writer, text string, c color) {
	if colored(w) {
		text = inColor(text, c)
	}
	fmt.Fprint(unescaped(w), text)
}

func inColor(text string, c color) string { return "\x1b[" + string(c) + "m" + text + "\x1b[0m" }

// marks are the parts of tables that have a colour.
var marks = []struct {
	pattern *regexp.Regexp
	color   color
}{
	{regexp.MustCompile(`✓`), green},
	{regexp.MustCompile(`✗|(?m:^ERROR$)`), red},
	{regexp.MustCompile(`(?m:^WARNING$)`), yellow},
}

// withColors returns a writer for a table, which colours its marks where w shows colours.
func withColors(w io.Writer) io.Writer {
	if !colored(w) {
		return w
	}
	return escaping(markWriter{unescaped(w)})
}

// markWriter colours marks. Each write holds whole lines.
type markWriter struct{ io.Writer }

func (w markWriter) Write(text []byte) (int, error) {
	if _, err := w.Writer.Write(colorMarks(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

func colorMarks(text []byte) []byte {
	for _, m := range marks {
		text = m.pattern.ReplaceAllFunc(text, func(mark []byte) []byte { return []byte(inColor(string(mark), m.color)) })
	}
	return text
}

// newLog returns the log of a program that runs in the foreground: JSON lines, with
// durations as text like 1.5s.
func newLog(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration {
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}))
}
