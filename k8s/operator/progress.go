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
	terminal bool
	last     string
}

// NewProgress returns a Progress that writes to a terminal or another writer.
func NewProgress(to io.Writer, terminal bool) *Progress { return &Progress{to: to, terminal: terminal} }

// widest is the maximum length of a line on a terminal: a line that wraps cannot be
// overwritten.
const widest = 78

// Say replaces the line.
func (p *Progress) Say(line string) {
	if p == nil || line == p.last {
		return
	}
	p.last = line
	if !p.terminal {
		fmt.Fprintln(p.to, line)
		return
	}
	line = strings.ReplaceAll(line, "\n", " ")
	if utf8.RuneCountInString(line) > widest {
		line = string([]rune(line)[:widest-1]) + "…"
	}
	fmt.Fprintf(p.to, "\r\x1b[K%s", line)
}

// Done erases the line on a terminal, so that other text can be written.
func (p *Progress) Done() {
	if p != nil && p.terminal && p.last != "" {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
	if p != nil {
		p.last = ""
	}
}
