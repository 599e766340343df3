package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestOutputThatIsNoTerminalHasNoColors(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	access(t, map[string]string{"a": objects(t, readyObjects).URL})
	for _, format := range formats {
		if out, stderr, _ := output("", "status", "--context", "a", "-o", format); strings.Contains(out+stderr, "\x1b") {
			t.Errorf("-o %s prints escape sequences", format)
		}
	}
	if !colorsAllowed() {
		t.Error("a terminal has no colours")
	}
	t.Setenv("NO_COLOR", "1")
	if colorsAllowed() {
		t.Error("NO_COLOR is ignored")
	}
}

func TestMarksAreColored(t *testing.T) {
	const plain, want = "  ✓ ranges\n  ✗ probes\nERROR\nWARNING\nan ERROR inside\n",
		"  \x1b[32m✓\x1b[0m ranges\n  \x1b[31m✗\x1b[0m probes\n\x1b[31mERROR\x1b[0m\n\x1b[33mWARNING\x1b[0m\nan ERROR inside\n"
	if got := string(colorMarks([]byte(plain))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDurationsInLogsAreText(t *testing.T) {
	var b bytes.Buffer
	newLog(&b, slog.LevelInfo).Info("waited", "for", 1500*time.Millisecond, slog.Group("link", "rtt", 2*time.Millisecond))
	var line struct {
		For  string
		Link struct{ RTT string }
	}
	if err := json.Unmarshal(b.Bytes(), &line); err != nil || line.For != "1.5s" || line.Link.RTT != "2ms" {
		t.Errorf("%v: %s", err, b.Bytes())
	}
}

func TestVersionFlagPrintsTheVersion(t *testing.T) {
	flag, _, code := output("", "--version")
	command, _, _ := output("", "version", "--client")
	if code != exitOK || flag != command || !strings.HasPrefix(flag, "strait ") {
		t.Errorf("--version prints %q, version %q", flag, command)
	}
}
