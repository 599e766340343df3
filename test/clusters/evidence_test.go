package clusters

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write pages of docs/evidence again from their JSON files")

// results are those of a measurement that has a page in docs/evidence.
type results interface {
	write(name string) error     // as JSON, one sample a line
	page() string                // in Markdown
	writePage(name string) error // and its plots
}

// writeResults writes results as JSON, with a new line at each of these beginnings of samples.
func writeResults(name string, r results, samples ...string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for _, begin := range samples {
		text = bytes.ReplaceAll(text, []byte(begin), []byte("\n"+begin))
	}
	return os.WriteFile(name, append(bytes.TrimSpace(text), '\n'), 0o644)
}

// readResults reads what write wrote.
func readResults(name string, r results) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, r)
}

// hasAll checks that a page has lines or parts of them.
func hasAll(t *testing.T, page string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// readAsWritten checks that results with so many samples are read into read as they were written.
func readAsWritten(t *testing.T, r, read results, samples int) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "results.json")
	if err := r.write(name); err != nil {
		t.Fatal(err)
	}
	if err := readResults(name, read); err != nil || !reflect.DeepEqual(read, r) {
		t.Errorf("%v\nwrote %+v\nread %+v", err, r, read)
	}
	text, err := os.ReadFile(name)
	if err != nil || strings.Count(string(text), "\n") != 1+samples {
		t.Errorf("not one sample a line: %v\n%s", err, text)
	}
}

// pageIsCurrent checks that a page in the documentation is that of the results next to it, which are read into r. A make
// target of the same name measures them.
func pageIsCurrent(t *testing.T, measured string, r results) {
	t.Helper()
	name := filepath.Join("../../docs/evidence", measured)
	err := readResults(name+".json", r)
	if errors.Is(err, os.ErrNotExist) {
		t.Skipf("left out: it has not been measured; run: make %s", measured)
	}
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := r.writePage(name + ".md"); err != nil {
			t.Fatal(err)
		}
		return
	}
	page, err := os.ReadFile(name + ".md")
	if err != nil || string(page) != r.page() {
		t.Errorf("%s.md is not the page of %s.json; run: go test -run PageIsCurrent ./test/clusters -update; %v", name, name, err)
	}
}
