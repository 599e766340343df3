package demo

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var (
	readmeBlock = regexp.MustCompile("(?s)```text\n(Two clusters .*?)```")
	durations   = regexp.MustCompile(`\d+(\.\d+)? m?s`)
)

// checkREADME fails the test unless the output in README.md is the beginning of shown,
// except for durations.
func checkREADME(t *testing.T, shown string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := readmeBlock.FindSubmatch(text)
	if block == nil {
		t.Fatal("README.md has no output of the demo")
	}
	want := strings.Split(strings.TrimSuffix(string(block[1]), "\n"), "\n")
	got := strings.Split(shown, "\n")
	for i, line := range want {
		if i >= len(got) || durations.ReplaceAllString(strings.TrimRight(got[i], " "), "") != durations.ReplaceAllString(line, "") {
			t.Fatalf("README.md shows the line %q, which is not the next line of the output:\n%s", line, shown)
		}
	}
}
