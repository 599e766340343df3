package operator

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Progress tells somebody who waits what is being waited for: on a terminal in one line
// that changes, elsewhere in a line for each change. A nil one tells nobody. It is for
// one goroutine.
type Progress struct {
	to       io.Writer
	terminal bool
	last     string
}

// NewProgress makes one that writes to a terminal or elsewhere.
func NewProgress(to io.Writer, terminal bool) *Progress { return &Progress{to: to, terminal: terminal} }

// widest is how much of a line a terminal is given: a line that wraps cannot be taken
// back.
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

// Done takes the line of a terminal away. Other text may be written then.
func (p *Progress) Done() {
	if p != nil && p.terminal && p.last != "" {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
	if p != nil {
		p.last = ""
	}
}
