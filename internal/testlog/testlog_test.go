package testlog

import (
	"slices"
	"strings"
	"testing"
)

// stream is what `go test -json` prints, one action per line: action, test, output.
func stream(lines ...string) *strings.Reader {
	var b strings.Builder
	for _, line := range lines {
		action, rest, _ := strings.Cut(line, " ")
		test, output, _ := strings.Cut(rest, " ")
		b.WriteString(`{"Action":"` + action + `","Package":"p","Elapsed":0.5`)
		if test != "" {
			b.WriteString(`,"Test":"` + test + `"`)
		}
		if output != "" {
			b.WriteString(`,"Output":"` + output + `\n"`)
		}
		b.WriteString("}\n")
	}
	return strings.NewReader(b.String())
}

func TestReadDistinguishesOutcomes(t *testing.T) {
	t.Parallel()
	got, err := Read(stream(
		"start", "run TestA", "pass TestA",
		"run TestB", "run TestB/x", "fail TestB/x", "fail TestB",
		"run TestC", "output TestC     c_test.go:12: left out: no root", "output TestC --- SKIP: TestC", "skip TestC",
		"run TestD", "fail TestD",
		"run TestE",
		"fail",
		"start", "run TestD", "pass TestD", "pass", // run again
	))
	if err != nil {
		t.Fatal(err)
	}
	want := []Result{
		{"p", "TestA", Pass, "", 0.5},
		{"p", "TestB", Fail, "", 0.5},
		{"p", "TestB/x", Fail, "", 0.5},
		{"p", "TestC", Skip, "left out: no root", 0.5},
		{"p", "TestD", Flaky, "", 0.5},
		{"p", "TestE", Fail, "", 0}, // never ended
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestReadReportsAPackageThatFailedWithoutAFailedTest(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]*strings.Reader{
		"it did not build":  stream("start", "output  undefined: x", "fail"),
		"it was cut off":    stream("start"),
		"a test had passed": stream("start", "run TestA", "pass TestA", "fail"),
	} {
		got, err := Read(in)
		if err != nil {
			t.Fatal(err)
		}
		failed := slices.DeleteFunc(got, func(r Result) bool { return r.Outcome != Fail })
		if len(failed) != 1 || failed[0].Name() != "p" {
			t.Errorf("%s: got %v, want the package as failed", name, got)
		}
	}
	if got, _ := Read(stream("start", "pass")); len(got) != 0 {
		t.Errorf("a package that passed: got %v, want no result", got)
	}
}

func TestReadIgnoresLinesThatAreNotEvents(t *testing.T) {
	t.Parallel()
	got, err := Read(strings.NewReader("# p\n{}\nnull\nwarning: {\n"))
	if err != nil || len(got) != 0 {
		t.Errorf("got %v, %v; want nothing", got, err)
	}
}

func TestMergeTakesTheWorstOutcomeOfATestThatRan(t *testing.T) {
	t.Parallel()
	got := Merge(
		[]Result{{"p", "TestA", Skip, "no root", 0}, {"p", "TestB", Pass, "", 2}, {"p", "TestC", Flaky, "", 1}},
		[]Result{{"p", "TestA", Pass, "", 1}, {"p", "TestB", Fail, "", 1}, {"p", "TestC", Pass, "", 1}, {"p", "TestD", Skip, "no root", 0}},
	)
	want := []Result{{"p", "TestA", Pass, "", 1}, {"p", "TestB", Fail, "", 2}, {"p", "TestC", Flaky, "", 1}, {"p", "TestD", Skip, "no root", 0}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
