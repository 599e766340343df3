package bench

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/perf/benchfmt"

	"strait.dev/strait/bench/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// little is enough to see that a test measures, on a busy machine too: 18 trials,
// two of each rate, go down to some hundred packets per second.
var little = effort{
	operation: time.Millisecond, trial: 20 * time.Millisecond, quiet: 200 * time.Millisecond, trials: 18, precision: 1,
	questions: 20, transfer: 300 * time.Millisecond, peerings: 2,
}

// zeros are the units that may be zero.
var zeros = []string{"loss", "ndr-pkts/s", "B/peering", "moved-pkts", "late-pkts"}

func TestEveryTestOfTheLadderMeasures(t *testing.T) {
	r := result.New("", result.Machine{GOMAXPROCS: 2}, time.Now())
	for _, test := range Ladder() {
		metrics, err := test.measure(t.Context(), little)
		if err != nil {
			t.Errorf("%s: %v", test, err)
			continue
		}
		for unit, v := range metrics {
			if v < 0 || v == 0 && !slices.Contains(zeros, unit) {
				t.Errorf("%s: %v %s", test, v, unit)
			}
		}
		if err := r.Add(result.Sample{Test: test.Name, Subject: test.Subject, Mode: test.Mode, Repetition: 1, Metrics: metrics}); err != nil {
			t.Error(err)
		}
	}
	readsAsBenchstat(t, r)
}

// readsAsBenchstat checks that nothing is lost on the way through Go's benchmark
// format.
func readsAsBenchstat(t *testing.T, r *result.Run) {
	t.Helper()
	var b bytes.Buffer
	if err := result.WriteBenchstat(&b, r); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for reader := benchfmt.NewReader(&b, "ladder"); reader.Scan(); {
		switch record := reader.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(record)
		case *benchfmt.Result:
			if want := r.Samples[lines]; len(record.Values) != len(want.Metrics) {
				t.Errorf("%s has %d values, want %v", record.Name, len(record.Values), slices.Sorted(maps.Keys(want.Metrics)))
			}
			lines++
		}
	}
	if lines != len(r.Samples) {
		t.Errorf("%d samples are %d lines", len(r.Samples), lines)
	}
}

func TestNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, test := range Ladder() {
		if seen[test.String()] {
			t.Errorf("%s is there twice", test)
		}
		seen[test.String()] = true
	}
}
