//go:build nightly

package bench

import (
	"slices"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
)

// little is enough to check that a test measures, even on a busy machine: 18 trials, two of
// each rate, reach down to a few hundred packets per second.
var little = effort{
	operation: time.Millisecond, trial: 20 * time.Millisecond, quiet: 200 * time.Millisecond, trials: 18, precision: 1,
	requests: 20, transfer: 300 * time.Millisecond, peerings: 2,
}

// zeros are the units whose value may be zero.
var zeros = []string{"loss", "ndr-pkts/s", "B/peering"}

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
