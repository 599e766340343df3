package clusters

import (
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
)

// exampleThroughput returns a small run.
func exampleThroughput() *throughputRun {
	r := &throughputRun{
		Time: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Machine: result.Machine{CPU: "CPU", Cores: 2, Strait: "abc"},
		Flows: 512, Load: 8000, CPUs: 0.1,
		Spread:  []spreadSample{{Flows: 1000, From: "a", Through: map[string]int{"a/b-0": 240, "a/b-1": 250, "a/b-2": 330, "a/b-3": 180}}},
		Regroup: []regroupSample{{ChosenBy: "nodes", Protocol: "UDP", Gateways: 4, Flows: 751, Moved: 9}},
	}
	for gateways, rate := range map[int]float64{1: 1000, 2: 1900, 4: 3700} {
		n := float64(gateways)
		for range 2 {
			r.Loaded = append(r.Loaded, throughputSample{Gateways: gateways, Size: 1000,
				Some: carried{Rate: 7992 * n, Offered: 8000 * n, CPU: n * rate / 1e4},
				One:  carried{Rate: 7992, Offered: 8000, CPU: 0.16},
			})
		}
		r.Limited = append(r.Limited, throughputSample{Gateways: gateways, Size: 1000,
			Some: carried{Rate: rate, Offered: 1.4 * rate, CPU: 0.198 * n, Idle: 0.25},
			One:  carried{Rate: 1000, Offered: 1400, CPU: 0.2, Idle: 0.25},
		})
	}
	return r
}

func TestTheThroughputPageHasEveryResult(t *testing.T) {
	t.Parallel()
	hasAll(t, exampleThroughput().page(),
		"512 UDP flows from one cluster",
		"of 2 rounds with the same load, of 1 limited ones",
		"| 2 gateways, 1000 bytes: throughput | ≥ 1.90 × one | 1.90 | met |",
		"| 4 gateways, 1000 bytes: throughput | ≥ 3.80 × one | 3.70 | missed |",
		"| 2 gateways, 1000 bytes: CPU time per GB, each with the same load | ≤ 1.05 × one | 1.19 | missed |",
		"| 1000 | 2 | 99.9 % | 23.77 | 1.19 | 1900 | 1.90 | 1.90 to 1.90 | 99 % | 25 % |",
		"| 1000 flows from a: the busiest of 4 gateways (a) | ≤ 32 % | 33 % | missed |",
		"| nodes | UDP | 4 | 751 | 9 |",
		"| 1000 | a | a/b-0 240, a/b-1 250, a/b-2 330, a/b-3 180 |",
	)
}

func TestTheThroughputPageOfAnEmptyRunHasNoFigures(t *testing.T) {
	t.Parallel()
	if page := new(throughputRun).page(); strings.Contains(page, "NaN") || strings.Contains(page, "adds up") {
		t.Error(page)
	}
}

func TestTheMedianIsKnownMoreExactlyFromMoreValues(t *testing.T) {
	t.Parallel()
	for count, want := range map[int][2]float64{1: {1, 1}, 5: {1, 5}, 9: {1, 9}, 31: {10, 22}, 101: {40, 62}} {
		var values []float64
		for i := range count {
			values = append(values, float64(count-i))
		}
		if got := medianInterval(values); got != want {
			t.Errorf("of 1 to %d: %v, want %v", count, got, want)
		}
	}
}

func TestResultsOfThroughputAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	r := exampleThroughput()
	readAsWritten(t, r, new(throughputRun), len(r.Loaded)+len(r.Limited)+len(r.Spread)+len(r.Regroup))
}

func TestTheThroughputPageIsCurrent(t *testing.T) {
	t.Parallel()
	pageIsCurrent(t, "throughput", new(throughputRun))
}
