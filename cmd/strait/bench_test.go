package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"strait.dev/strait/bench"
	"strait.dev/strait/bench/result"
)

func TestCompareAndReportReadTheResultOfBench(t *testing.T) {
	folder := t.TempDir()
	document, page := filepath.Join(folder, "run.json"), filepath.Join(folder, "run.html")
	const one = "packet/size=64/subject=parse"
	if code := run([]string{"bench", "--run", one, "-n", "4", "--quick", "-o", "json", "--file", document}); code != exitOK {
		t.Fatalf("bench ends with %d", code)
	}
	r, err := result.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 4 || r.Machine.Cores == 0 || r.Samples[3].Repetition != 4 || r.Samples[0].Subject != "parse" {
		t.Errorf("read %+v", r)
	}
	if code := run([]string{"bench", "compare", document, document}); code != exitOK {
		t.Errorf("compare ends with %d", code)
	}
	if code := run([]string{"bench", "report", document, "--html", page}); code != exitOK {
		t.Errorf("report ends with %d", code)
	}
	if text, err := os.ReadFile(page); err != nil || len(text) == 0 {
		t.Errorf("the page has %d bytes, %v", len(text), err)
	}
}

// TestTheModelFindsItsFiguresInAFullRun makes a run of all tests, with
// figures that fit together.
func TestTheModelFindsItsFiguresInAFullRun(t *testing.T) {
	r := result.New("", result.Machine{Cores: 2, GOMAXPROCS: 2}, time.Unix(0, 0))
	for _, test := range bench.Ladder() {
		metrics := map[string]float64{"ns/op": 100, "CPU-ns/pkt": 100, "pdr-pkts/s": 100_000}
		if test.Subject == "gateways" {
			metrics["CPU-ns/pkt"] = 10_000
		}
		if err := r.Add(result.Sample{Test: test.Name, Subject: test.Subject, Mode: test.Mode, Repetition: 1, Metrics: metrics}); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := result.WriteFile(file, func(w io.Writer) error { return result.Write(w, r) }); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"table", "json", "yaml"} {
		if code := run([]string{"bench", "model", file, "-o", format}); code != exitOK {
			t.Errorf("model -o %s ends with %d", format, code)
		}
	}
}

func TestBenchExitCodes(t *testing.T) {
	folder := t.TempDir()
	few, other := filepath.Join(folder, "few.json"), filepath.Join(folder, "other.json")
	const one = "packet/size=64/subject=parse"
	if code := run([]string{"bench", "--run", one, "-n", "1", "--quick", "-o", "json", "--file", few}); code != exitOK {
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
		{[]string{"bench", "model"}, exitUsage},
		{[]string{"bench", "model", few, "-o", "xml"}, exitUsage},
		{[]string{"bench", "model", few, "--line-rate", "0"}, exitUsage},
		{[]string{"bench", "model", few}, exitFailed}, // lacks the tests that the model needs
		{[]string{"bench", "model", other}, exitFailed},
		{[]string{"bench", "report", few}, exitUsage},
		{[]string{"bench", "report", other, "--html", filepath.Join(folder, "page.html")}, exitFailed},
		{[]string{"bench", "--run", one, "-n", "1", "--quick", "--file", filepath.Join(folder, "absent", "run.json")}, exitFailed},
	} {
		if code := run(c.args); code != c.want {
			t.Errorf("strait %v ends with %d, want %d", c.args, code, c.want)
		}
	}
}
