package result

import (
	"errors"
	"math"
	"strings"
	"testing"
)

func TestCompareDistinguishesChangeFromNoise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		unit        string
		old, new    []float64
		p           float64
		change      string
		verdict     string
		significant bool
	}{
		{"all faster", "B/s", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70, "+160.0 %", "better", true},
		{"all slower", "B/s", []float64{5, 6, 7, 8}, []float64{1, 2, 3, 4}, 2.0 / 70, "-61.5 %", "worse", true},
		{"all cheaper", "ns/op", []float64{5, 6, 7, 8}, []float64{1, 2, 3, 4}, 2.0 / 70, "-61.5 %", "better", true},
		{"all more expensive", "CPU-s/GB", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70, "+160.0 %", "worse", true},
		{"mixed", "B/s", []float64{1, 3, 5, 7}, []float64{2, 4, 6, 8}, 48.0 / 70, "~", "", false},
		{"equal", "B/s", []float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}, 1, "~", "", false},
	} {
		got, err := Compare(runOf(t, c.unit, c.old...), runOf(t, c.unit, c.new...))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		d := got[0]
		if len(got) != 1 || math.Abs(d.P-c.p) > 1e-9 || d.Significant() != c.significant || d.Change() != c.change || d.Verdict() != c.verdict {
			t.Errorf("%s: %d differences, p = %v, significant %v, %q, %q", c.name, len(got), d.P, d.Significant(), d.Change(), d.Verdict())
		}
	}
}

func TestCompareRejectsTooFewSamples(t *testing.T) {
	t.Parallel()
	old, new := runOf(t, "B/s", 1, 2, 3), runOf(t, "B/s", 4, 5, 6)
	_, err := Compare(old, new)
	var few *TooFewError
	if !errors.As(err, &few) || few.Old != 3 || few.New != 3 || !strings.Contains(err.Error(), "-n 4") {
		t.Errorf("error is %v", err)
	}
}

// As the peak memory of a run of strait bench peer.
func TestAFigureOfOneSampleDoesNotPreventAComparison(t *testing.T) {
	t.Parallel()
	old, new := runOf(t, "B/s", 1, 2, 3, 4), runOf(t, "B/s", 5, 6, 7, 8)
	add(t, old, Sample{Test: "memory/peak", Subject: "strait", Repetition: 1, Metrics: map[string]float64{"peak-B": 100}})
	add(t, new, Sample{Test: "memory/peak", Subject: "strait", Repetition: 1, Metrics: map[string]float64{"peak-B": 900}})
	all, err := Compare(old, new)
	if err != nil || len(all) != 2 || !all[0].Significant() {
		t.Fatalf("%+v, %v", all, err)
	}
	if d := all[1]; d.Unit != "peak-B" || d.P != 1 || d.Change() != "~" || d.Verdict() != "" {
		t.Errorf("one sample each: %+v, %q, %q", d, d.Change(), d.Verdict())
	}
}

func TestEnoughSamplesForSignificance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b int
		want bool
	}{{0, 9, false}, {1, 38, false}, {1, 40, true}, {2, 7, false}, {2, 8, true}, {3, 4, false}, {3, 5, true}, {Enough, Enough, true}, {Enough - 1, Enough - 1, false}} {
		if got := enough(c.a, c.b); got != c.want || enough(c.b, c.a) != c.want {
			t.Errorf("%d and %d samples: enough is %v", c.a, c.b, got)
		}
	}
}

func TestCompareNeedsACommonFigure(t *testing.T) {
	t.Parallel()
	if _, err := Compare(runOf(t, "B/s", 1, 2, 3, 4), runOf(t, "ns/op", 1, 2, 3, 4)); err == nil {
		t.Error("Compare accepted runs without a common figure")
	}
}
