package demo

import (
	"bytes"
	"testing"
)

func TestFigureString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		figure *Figure
		text   string
	}{
		{nil, "-"},
		{&Figure{"round trip", 0.000066, "s"}, "round trip 0.07 ms"},
		{&Figure{"took", 0.0114, "s"}, "took 11 ms"},
		{&Figure{"took", 2.513, "s"}, "took 2.51 s"},
		{&Figure{"rate", 50_123_456, "B/s"}, "rate 50 MB/s"},
		{&Figure{"mtu", 1420, "B"}, "mtu 1420 bytes"},
		{&Figure{"length", 5, "hops"}, "length 5 hops"},
	} {
		if got := c.figure.String(); got != c.text {
			t.Errorf("%+v is printed as %q, want %q", c.figure, got, c.text)
		}
	}
}

func TestOnATerminalTheResultReplacesTheRunningStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terminal bool
		text     string
	}{
		{true, "http              ... a page\r\x1b[Khttp              a page (took 1.00 ms)\n"},
		{false, "http              a page (took 1.00 ms)\n"},
	} {
		var b bytes.Buffer
		text := &Text{To: &b}
		if c.terminal {
			text.Terminal = &b
		}
		text.Begin("http", "a page")
		text.End(Step{Name: "http", Result: Passed, Summary: "a page", Figure: &Figure{"took", 0.001, "s"}})
		if b.String() != c.text {
			t.Errorf("terminal %v: %q, want %q", c.terminal, b.String(), c.text)
		}
	}
}
