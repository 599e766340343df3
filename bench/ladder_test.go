package bench

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/perf/benchfmt"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/test/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tiny is enough to check that a test runs: the figures mean nothing.
var tiny = effort{
	operation: 100 * time.Microsecond, trial: 2 * time.Millisecond, quiet: 20 * time.Millisecond, trials: 4, precision: 1,
	requests: 4, transfer: 10 * time.Millisecond, peerings: 1,
}

func TestEveryTestOfTheLadderRuns(t *testing.T) {
	r := result.New("", result.Machine{GOMAXPROCS: 2}, time.Now())
	for _, test := range Ladder() {
		wait.Until(t, test.String()+" carries a packet", func() bool {
			metrics, err := test.measure(t.Context(), tiny)
			if errors.As(err, new(tooBusy)) {
				return false
			}
			if err != nil {
				t.Fatalf("%s: %v", test, err)
			}
			for unit, v := range metrics {
				if v < 0 {
					t.Errorf("%s: %v %s", test, v, unit)
				}
			}
			if err := r.Add(result.Sample{Test: test.Name, Subject: test.Subject, Mode: test.Mode, Repetition: 1, Metrics: metrics}); err != nil {
				t.Error(err)
			}
			return true
		})
	}
	readsAsBenchstat(t, r)
}

// readsAsBenchstat checks that nothing is lost in Go's benchmark format.
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
			t.Errorf("%s is listed twice", test)
		}
		seen[test.String()] = true
	}
}
