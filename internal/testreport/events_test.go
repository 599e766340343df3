package main

import (
	"slices"
	"strings"
	"testing"
)

// stream is what `go test -json` prints, one action per line: action, test, output.
func stream(lines ...string) []byte {
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
	return []byte(b.String())
}

func TestReadDistinguishesOutcomes(t *testing.T) {
	t.Parallel()
	got := read(stream(
		"start", "run TestA", "pass TestA",
		"run TestB", "run TestB/x", "fail TestB/x", "fail TestB",
		"run TestC", "output TestC     c_test.go:12: left out: no root", "output TestC --- SKIP: TestC", "skip TestC",
		"run TestD", "fail TestD",
		"run TestE",
		"run TestF",
		"fail",
		"start", "run TestD", "pass TestD", "run TestF", "pass TestF", "pass", // run again
	))
	want := []result{
		{"p", "TestA", pass, "", 0.5},
		{"p", "TestB", fail, "", 0.5},
		{"p", "TestB/x", fail, "", 0.5},
		{"p", "TestC", skip, "left out: no root", 0.5},
		{"p", "TestD", flaky, "", 0.5},
		{"p", "TestE", fail, "", 0},    // never ended
		{"p", "TestF", flaky, "", 0.5}, // crashed
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestReadReportsAPackageThatFailedWithoutAFailedTest(t *testing.T) {
	t.Parallel()
	for name, in := range map[string][]byte{
		"it did not build":  stream("start", "output  undefined: x", "fail"),
		"it was cut off":    stream("start"),
		"a test had passed": stream("start", "run TestA", "pass TestA", "fail"),
	} {
		got := read(in)
		failed := slices.DeleteFunc(got, func(r result) bool { return r.Outcome != fail })
		if len(failed) != 1 || failed[0].Name() != "p" {
			t.Errorf("%s: got %v, want the package as failed", name, got)
		}
	}
	if got := read(stream("start", "pass")); len(got) != 0 {
		t.Errorf("a package that passed: got %v, want no result", got)
	}
}

func TestReadIgnoresLinesThatAreNotEvents(t *testing.T) {
	t.Parallel()
	if got := read([]byte("# p\n{}\nnull\nwarning: {\n")); len(got) != 0 {
		t.Errorf("got %v; want nothing", got)
	}
}

func TestMergeTakesTheWorstOutcomeOfATestThatRan(t *testing.T) {
	t.Parallel()
	got := merge(
		[]result{{"p", "TestA", skip, "no root", 0}, {"p", "TestB", pass, "", 2}, {"p", "TestC", flaky, "", 1}},
		[]result{{"p", "TestA", pass, "", 1}, {"p", "TestB", fail, "", 1}, {"p", "TestC", pass, "", 1}, {"p", "TestD", skip, "no root", 0}},
	)
	want := []result{{"p", "TestA", pass, "", 1}, {"p", "TestB", fail, "", 2}, {"p", "TestC", flaky, "", 1}, {"p", "TestD", skip, "no root", 0}}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
