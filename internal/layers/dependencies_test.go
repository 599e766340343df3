package layers

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Patterns for a direct requirement of go.mod, a tool of a module file, and a line of a
// table in docs/design/dependencies.md.
var (
	required   = regexp.MustCompile(`(?m)^(?:\t|require )([^\s()]+) v\S+$`)
	tool       = regexp.MustCompile(`(?m)^(?:\t|tool )([^\s()]+/[^\s()]+)$`)
	documented = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
)

func TestEveryDependencyIsDocumentedWithItsReason(t *testing.T) {
	t.Parallel()
	needed := names(t, "../../go.mod", required)
	for _, file := range []string{"../../tools/go.mod", "../../tools/lint/go.mod"} {
		for pkg := range names(t, file, tool) {
			needed[moduleOf(pkg)] = true
		}
	}
	explained := names(t, "../../docs/design/dependencies.md", documented)
	for module := range needed {
		if !explained[module] {
			t.Errorf("%s is required by a go.mod; state the reason in docs/design/dependencies.md", module)
		}
	}
	for module := range explained {
		if !needed[module] {
			t.Errorf("docs/design/dependencies.md explains %s, which no go.mod requires directly", module)
		}
	}
}

// moduleOf returns the module of a tool's package, without its major version.
func moduleOf(pkg string) string {
	module, _, _ := strings.Cut(pkg, "/cmd/")
	return regexp.MustCompile(`/v\d+$`).ReplaceAllString(module, "")
}

// names returns the first groups of all matches in a file.
func names(t *testing.T, file string, pattern *regexp.Regexp) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
		found[match[1]] = true
	}
	if len(found) == 0 {
		t.Fatalf("%s: no match", file)
	}
	return found
}
