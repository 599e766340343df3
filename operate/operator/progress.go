package operator

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Progress prints what a command is waiting for: on a terminal in one line that is
// overwritten, otherwise in one line per change. A nil Progress prints nothing. It is not
// safe for concurrent use.
type Progress struct {
	to       io.Writer
	terminal io.Writer
	last     string
}

// NewProgress returns a Progress. terminal is where to writes to, for control sequences; nil:
// it is no terminal.
func NewProgress(to, terminal io.Writer) *Progress { return &Progress{to: to, terminal: terminal} }

// widest is the maximum length of a line on a terminal: a line that wraps cannot be
// overwritten.
const widest = 78

// eraseLine erases the current line (ECMA-48, EL).
const eraseLine = "\r\x1b[K"

// Say replaces the line.
func (p *Progress) Say(line string) {
	if p == nil || line == p.last {
		return
	}
	p.last = line
	if p.terminal == nil {
		fmt.Fprintln(p.to, line)
		return
	}
	line = strings.ReplaceAll(line, "\n", " ")
	if utf8.RuneCountInString(line) > widest {
		line = string([]rune(line)[:widest-1]) + "…"
	}
	fmt.Fprint(p.terminal, eraseLine)
	fmt.Fprint(p.to, line)
}

// Done erases the line on a terminal, so that other text can be written.
func (p *Progress) Done() {
	if p != nil && p.terminal != nil && p.last != "" {
		fmt.Fprint(p.terminal, eraseLine)
	}
	if p != nil {
		p.last = ""
	}
}
