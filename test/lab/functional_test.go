//go:build lab || nightly

package lab

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The file functional lists the tests that `make test` runs as root, one per line: the main
// scenarios, in a minute.
func TestFunctionalListsTestsOfTheLab(t *testing.T) {
	list, err := os.ReadFile("functional")
	if os.IsNotExist(err) {
		t.Skip("left out: the list is found with the sources of the tests; run this on the machine that has them")
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "functional_test.go")
	var tests []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(source), "//go:build lab || nightly\n") {
			continue
		}
		for _, m := range testName.FindAllStringSubmatch(string(source), -1) {
			tests = append(tests, m[1])
		}
	}
	for _, name := range strings.Fields(string(list)) {
		if !slices.Contains(tests, name) {
			t.Errorf("functional lists %s, which is not a test of the lab; correct or remove the line", name)
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
