package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files writes event streams, each given as "outcome test" lines, and returns their names.
func files(t *testing.T, streams ...string) (names []string) {
	t.Helper()
	for _, stream := range streams {
		var b strings.Builder
		for _, line := range strings.Split(stream, "\n") {
			outcome, test, _ := strings.Cut(line, " ")
			b.WriteString(`{"Action":"run","Package":"p","Test":"` + test + `"}` + "\n")
			b.WriteString(`{"Action":"output","Package":"p","Test":"` + test + `","Output":"left out: no root\n"}` + "\n")
			b.WriteString(`{"Action":"` + outcome + `","Package":"p","Test":"` + test + `","Elapsed":1.25}` + "\n")
		}
		name := filepath.Join(t.TempDir(), "events.json")
		if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func TestTheReportEndsWithCountsOfAllRuns(t *testing.T) {
	t.Parallel()
	durations := filepath.Join(t.TempDir(), "durations.json")
	var out, errors strings.Builder
	status := run(append([]string{"-slowest", "1", "-durations", durations}, files(t,
		"pass TestA\nskip TestB\nskip TestC\nfail TestD\npass TestD\npass TestE",
		"pass TestB\nfail TestE",
	)...), &out, &errors)
	want := `slow:    1.2 s p.TestA
skipped: p.TestC: left out: no root
flaky: p.TestD
failed: p.TestE
3 passed, 1 failed, 1 skipped
`
	if out.String() != want || status != 1 || errors.Len() > 0 {
		t.Errorf("exit status %d, stderr %q, and\n%s\nwant 1 and\n%s", status, &errors, &out, want)
	}
	if text, err := os.ReadFile(durations); err != nil || strings.Count(string(text), `"seconds": 1.25`) != 5 {
		t.Errorf("durations: %v\n%s", err, text)
	}
}

func TestTheFlakyReportCountsFailuresPerTest(t *testing.T) {
	t.Parallel()
	var out, errors strings.Builder
	status := run(append([]string{"-flaky"}, files(t, "pass TestA\nfail TestB", "fail TestA\nfail TestB\npass TestB", "pass TestA")...), &out, &errors)
	want := `failed in 2 of 3 runs: p.TestB
failed in 1 of 3 runs: p.TestA
1 of 3 runs green
`
	if out.String() != want || status != 1 || errors.Len() > 0 {
		t.Errorf("exit status %d, stderr %q, and\n%s\nwant 1 and\n%s", status, &errors, &out, want)
	}
}

func TestAMissingFileIsAUsageError(t *testing.T) {
	t.Parallel()
	var out, errors strings.Builder
	if status := run([]string{"missing.json"}, &out, &errors); status != 2 || !strings.Contains(errors.String(), "testreport: open missing.json") {
		t.Errorf("exit status %d, stderr %q; want 2 and the file's name", status, &errors)
	}
}

func TestTheTrendGrowsByALinePerTest(t *testing.T) {
	t.Parallel()
	trend := filepath.Join(t.TempDir(), "trend")
	for _, label := range []string{"c1", "c2"} {
		var out, errors strings.Builder
		if status := run(append([]string{"-trend", trend, "-label", label}, files(t, "pass TestA\npass TestA/b")...), &out, &errors); status != 0 {
			t.Fatalf("exit status %d: %s", status, &errors)
		}
	}
	text, err := os.ReadFile(trend)
	if want := "c1\tp.TestA\tpass\t1.25\nc2\tp.TestA\tpass\t1.25\n"; err != nil || string(text) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, text, want)
	}
}
