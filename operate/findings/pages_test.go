package findings

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const pages = "../../docs/troubleshooting"

func TestEveryCodeHasItsPageAndNoPageLacksACode(t *testing.T) {
	for code, check := range Catalog {
		text, err := os.ReadFile(filepath.Join(pages, code+".md"))
		if err != nil {
			t.Errorf("%s: %v", code, err)
			continue
		}
		title, rest, _ := strings.Cut(string(text), "\n")
		if want := fmt.Sprintf("# %s: %s", code, check.Title); title != want {
			t.Errorf("the page of %s begins with %q, want %q", code, title, want)
		}
		at := 0
		for _, part := range []string{"## Meaning", "## Impact", "## Diagnosis", "## Fix"} {
			i := strings.Index(rest[at:], "\n"+part+"\n")
			if i < 0 {
				t.Errorf("the page of %s lacks %q in its place", code, part)
				break
			}
			at += i + len(part)
		}
	}
	files, err := filepath.Glob(filepath.Join(pages, "STRAIT-*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if code := strings.TrimSuffix(filepath.Base(file), ".md"); Catalog[code] == (Check{}) {
			t.Errorf("%s is the page of no code", file)
		}
	}
}

func TestTheIndexOfPagesIsTheCatalog(t *testing.T) {
	var want strings.Builder
	for _, code := range slices.Sorted(maps.Keys(Catalog)) {
		fmt.Fprintf(&want, "| [%s](%s.md) | %s |\n", code, code, Catalog[code].Title)
	}
	text, err := os.ReadFile(filepath.Join(pages, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), want.String()) {
		t.Errorf("%s/README.md does not have this table:\n%s", pages, want.String())
	}
}

func TestRemediesAreSentences(t *testing.T) {
	for code, check := range Catalog {
		if check.Title == "" || strings.HasSuffix(check.Title, ".") || !strings.HasSuffix(check.Remedy, ".") {
			t.Errorf("%s: %+v", code, check)
		}
	}
}
