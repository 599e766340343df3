//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"

	"strait.dev/strait/bench/result"
)

func TestCompareAndReportReadTheResultOfBench(t *testing.T) {
	folder := t.TempDir()
	document, page := filepath.Join(folder, "run.json"), filepath.Join(folder, "run.html")
	const one = "packet/size=64/subject=parse"
	if code := execute(newRoot(), []string{"bench", "--run", one, "-n", "4", "--quick", "-o", "json", "--file", document}); code != exitOK {
		t.Fatalf("bench ends with %d", code)
	}
	r, err := result.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 4 || r.Machine.Cores == 0 || r.Samples[3].Repetition != 4 || r.Samples[0].Subject != "parse" {
		t.Errorf("read %+v", r)
	}
	if code := execute(newRoot(), []string{"bench", "compare", document, document}); code != exitOK {
		t.Errorf("compare ends with %d", code)
	}
	if code := execute(newRoot(), []string{"bench", "report", document, "--html", page}); code != exitOK {
		t.Errorf("report ends with %d", code)
	}
	if text, err := os.ReadFile(page); err != nil || len(text) == 0 {
		t.Errorf("the page has %d bytes, %v", len(text), err)
	}
}

func TestBenchExitCodes(t *testing.T) {
	folder := t.TempDir()
	few, other := filepath.Join(folder, "few.json"), filepath.Join(folder, "other.json")
	const one = "packet/size=64/subject=parse"
	if code := execute(newRoot(), []string{"bench", "--run", one, "-n", "1", "--quick", "-o", "json", "--file", few}); code != exitOK {
		t.Fatalf("bench ends with %d", code)
	}
	if err := os.WriteFile(other, []byte(`{"schema":"other"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"bench", "--list"}, exitOK},
		{[]string{"bench", "-o", "xml"}, exitUsage},
		{[]string{"bench", "-n", "0"}, exitUsage},
		{[]string{"bench", "--run", "("}, exitUsage},
		{[]string{"bench", "--run", "no such test"}, exitUsage},
		{[]string{"bench", "surplus"}, exitUsage},
		{[]string{"bench", "compare", few}, exitUsage},
		{[]string{"bench", "compare", few, few, "-o", "xml"}, exitUsage},
		{[]string{"bench", "compare", few, few}, exitFailed},
		{[]string{"bench", "compare", few, other}, exitFailed},
		{[]string{"bench", "compare", few, filepath.Join(folder, "absent.json")}, exitFailed},
		{[]string{"bench", "peer", "--baseline", filepath.Join(folder, "absent")}, exitUsage},
		{[]string{"bench", "report", few}, exitUsage},
		{[]string{"bench", "report", other, "--html", filepath.Join(folder, "page.html")}, exitFailed},
		{[]string{"bench", "--run", one, "-n", "1", "--quick", "--file", filepath.Join(folder, "absent", "run.json")}, exitFailed},
	} {
		if code := execute(newRoot(), c.args); code != c.want {
			t.Errorf("strait %v ends with %d, want %d", c.args, code, c.want)
		}
	}
}
