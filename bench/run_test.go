package bench

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
)

// fakes are tests that measure nothing and record that they ran.
func fakes(taken *[]string, names ...string) (all []Test) {
	for _, name := range names {
		all = append(all, Test{Name: name, Subject: "fake", measure: func(context.Context, effort) (map[string]float64, error) {
			*taken = append(*taken, name)
			return map[string]float64{"ns/op": 1}, nil
		}})
	}
	return all
}

func unwatched(Test, int, int, int) {}

func emptyRun() *result.Run { return result.New("", result.Machine{}, time.Now()) }

func TestTheOrderIsReversedEachTime(t *testing.T) {
	t.Parallel()
	var taken []string
	r := emptyRun()
	if err := Run(t.Context(), r, fakes(&taken, "a", "b", "c"), 3, false, unwatched); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "c", "c", "b", "a", "a", "b", "c"}; !slices.Equal(taken, want) {
		t.Errorf("run in the order %v, want %v", taken, want)
	}
	for i, s := range r.Samples {
		if s.Test != taken[i] || s.Repetition != i/3+1 || s.Subject != "fake" {
			t.Errorf("sample %d is %+v", i, s)
		}
	}
}

func TestFailureNamesItsTestAndOthersStillRun(t *testing.T) {
	t.Parallel()
	var taken []string
	tests := fakes(&taken, "a", "c")
	broken := errors.New("broken")
	failed := 0
	tests = slices.Insert(tests, 1, Test{Name: "b", Mode: "nogro", Subject: "fake", measure: func(context.Context, effort) (map[string]float64, error) {
		failed++
		return nil, broken
	}})
	r := emptyRun()
	err := Run(t.Context(), r, tests, 2, false, unwatched)
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "b/mode=nogro/subject=fake") {
		t.Errorf("error is %v", err)
	}
	if failed != 1 || !slices.Equal(taken, []string{"a", "c", "c", "a"}) || len(r.Samples) != 4 {
		t.Errorf("failed %d times, ran %v, %d samples", failed, taken, len(r.Samples))
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var taken []string
	if err := Run(ctx, emptyRun(), fakes(&taken, "a"), 1, false, unwatched); !errors.Is(err, context.Canceled) || taken != nil {
		t.Errorf("error is %v, ran %v", err, taken)
	}
}

func TestTestsAreChosenByTheirWholeName(t *testing.T) {
	t.Parallel()
	tests := []Test{{Name: "rtt/flow=new", Mode: "nogro", Subject: "udp"}, {Name: "idle", Subject: "gateway"}}
	for pattern, want := range map[string]int{"": 2, "rtt": 1, "mode=nogro/subject=udp$": 1, "^idle/subject=gateway$": 1, "tcp": 0} {
		if got := Matching(tests, regexp.MustCompile(pattern)); len(got) != want {
			t.Errorf("%q chooses %v", pattern, got)
		}
	}
}
