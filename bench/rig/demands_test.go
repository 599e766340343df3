package rig

import (
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
)

// runOf returns a run with the given figures, each measured once.
func runOf(t *testing.T, values map[figure]float64) *result.Run {
	t.Helper()
	run := result.New("strait bench peer", result.Machine{}, time.Unix(0, 0))
	for f, v := range values {
		s := result.Sample{Test: f.test, Mode: string(f.mode), Subject: f.subject, Repetition: 1, Metrics: metrics{f.unit: v}}
		if err := run.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

// verdictOn returns the line of the table whose measure starts with the given text.
func verdictOn(t *testing.T, run *result.Run, measure string) Verdict {
	t.Helper()
	for _, v := range Verdicts(run) {
		if strings.HasPrefix(v.Measure, measure) {
			return v
		}
	}
	t.Fatalf("no demand on %s", measure)
	return Verdict{}
}

func TestWorstTestDecides(t *testing.T) {
	t.Parallel()
	values := make(map[figure]float64)
	for i, test := range tcpTests {
		values[figure{test, NoGRO, nameP, unitThroughput}] = 100
		values[figure{test, NoGRO, nameStrait, unitThroughput}] = 400 + float64(i)
	}
	if v := verdictOn(t, runOf(t, values), "nogro TCP throughput"); v.Met != "met" || v.Measured != "4.00" {
		t.Errorf("all four at least 4 times as fast: %+v", v)
	}
	values[figure{tcpTests[2], NoGRO, nameStrait, unitThroughput}] = 340
	if v := verdictOn(t, runOf(t, values), "nogro TCP throughput"); v.Met != "missed" || v.Measured != "3.40" {
		t.Errorf("one of four only 3.4 times as fast: %+v", v)
	}
}

func TestDemandWithTwoLimitsRequiresBoth(t *testing.T) {
	t.Parallel()
	values := map[figure]float64{
		{testRoundTrip, NoGRO, nameP, unitP50}: 200, {testRoundTrip, NoGRO, nameStrait, unitP50}: 100,
		{testRoundTrip, NoGRO, nameP, unitP99}: 200, {testRoundTrip, NoGRO, nameStrait, unitP99}: 150,
	}
	v := verdictOn(t, runOf(t, values), "TCP round trip")
	if v.Met != "missed" || v.Measured != "0.50, 0.75" {
		t.Errorf("p50 met and p99 missed: %+v", v)
	}
	delete(values, figure{testRoundTrip, NoGRO, nameP, unitP99})
	if v := verdictOn(t, runOf(t, values), "TCP round trip"); v.Met != "not measured" || v.Measured != "0.50, –" {
		t.Errorf("p99 not measured: %+v", v)
	}
}

func TestFloorIsTheSumOfItsParts(t *testing.T) {
	t.Parallel()
	values := map[figure]float64{
		{tcpName(1, forth), Wire, nameOverlay, unitCPU}: 2.5,
		{testHop, Wire, namePlain, unitCPU}:             1.0,
		{testHopForwarded, Wire, namePlain, unitCPU}:    1.5,
		{testAEAD, Wire, namePlain, unitCPU}:            1.0,
		{tcpName(1, forth), Wire, nameStrait, unitCPU}:  6.75,
	}
	// 2.5 + 2 × (1.0 − 0.5) + 1.0 = 4.5
	if got, ok := floor(medians(runOf(t, values)), Wire); !ok || got != 4.5 {
		t.Errorf("floor %v, %v; want 4.5", got, ok)
	}
	if v := verdictOn(t, runOf(t, values), "CPU per GB against"); v.Met != "missed" || v.Measured != "1.50" {
		t.Errorf("%+v", v)
	}
}

func TestEveryDemandRefersToATest(t *testing.T) {
	t.Parallel()
	planned := make(map[figure]bool)
	for _, t := range allTests(fullLengths, nil, false) {
		for _, subject := range t.subjects {
			planned[figure{t.name, t.mode, subject, ""}] = true
		}
	}
	planned[figure{testMemory, "", nameStrait, ""}] = true // read at the end of every run
	for _, d := range demands() {
		for _, l := range d.limits {
			l.measure(func(f figure) (float64, bool) {
				f.unit = ""
				if !planned[f] {
					t.Errorf("%s: %s %s of %s is never measured", d.measure, f.mode, f.test, f.subject)
				}
				return 1, true
			})
		}
	}
}

func TestTheReportHasEveryDemandAndEveryFigure(t *testing.T) {
	t.Parallel()
	run := runOf(t, map[figure]float64{{tcpTests[0], NoGRO, nameP, unitThroughput}: 1.5e9})
	var page strings.Builder
	if err := Report(&page, run); err != nil {
		t.Fatal(err)
	}
	for _, d := range demands() {
		if !strings.Contains(page.String(), "| "+d.measure+" |") {
			t.Errorf("the report has no line about %s", d.measure)
		}
	}
	if want := "| " + tcpTests[0] + " | nogro | P | 1.50 Gbit/s | 0 % | 1 |"; !strings.Contains(page.String(), want) {
		t.Errorf("the report lacks %q:\n%s", want, page.String())
	}
}
