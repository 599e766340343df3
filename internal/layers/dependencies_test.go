package layers

import (
	"os"
	"regexp"
	"testing"
)

// A requirement of go.mod that is not marked as indirect, and a line of the table
// in docs/design/dependencies.md.
var (
	required   = regexp.MustCompile(`(?m)^(?:\t|require )([^\s()]+) v\S+$`)
	documented = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")
)

func TestEveryDependencyIsDocumentedWithItsReason(t *testing.T) {
	t.Parallel()
	needed := names(t, "../../go.mod", required)
	explained := names(t, "../../docs/design/dependencies.md", documented)
	for module := range needed {
		if !explained[module] {
			t.Errorf("go.mod requires %s; say why in docs/design/dependencies.md", module)
		}
	}
	for module := range explained {
		if !needed[module] {
			t.Errorf("docs/design/dependencies.md explains %s, which go.mod does not require directly", module)
		}
	}
}

// names are the first groups of all matches in a file.
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
		t.Fatalf("%s: nothing found", file)
	}
	return found
}
