package measure

import (
	"errors"
	"math"
	"testing"
	"time"
)

func TestPerOpIsTheTimeOfOneOperation(t *testing.T) {
	t.Parallel()
	const price = 37 * time.Nanosecond
	var clock time.Duration
	got := PerOp(10*time.Millisecond, func() time.Duration { return clock }, func(n int) { clock += time.Duration(n) * price })
	if got != 37 {
		t.Errorf("an operation of %v takes %v ns", price, got)
	}
	if clock < 10*time.Millisecond || clock > 100*time.Millisecond {
		t.Errorf("a budget of 10 ms took %v", clock)
	}
}

func TestPerOpEndsWithAClockTooCoarseForOneOperation(t *testing.T) {
	t.Parallel()
	var clock time.Duration
	coarse := func() time.Duration { return clock.Truncate(time.Millisecond) }
	got := PerOp(100*time.Millisecond, coarse, func(n int) { clock += time.Duration(n) * 100 })
	if got < 95 || got > 105 {
		t.Errorf("an operation of 100 ns takes %v ns", got)
	}
}

func TestAKnownRateIsDue(t *testing.T) {
	t.Parallel()
	p := Pace{Rate: 1000, Start: time.Second}
	for _, c := range []struct {
		now  time.Duration
		want int
	}{
		{0, 0}, {time.Second - 1, 0}, {time.Second, 1}, {time.Second + 999*time.Microsecond, 1},
		{1001 * time.Millisecond, 2}, {2 * time.Second, 1001}, {time.Hour + time.Second, 3600*1000 + 1},
	} {
		if got := p.Due(c.now); got != c.want {
			t.Errorf("at %v %d are due, want %d", c.now, got, c.want)
		}
	}
	if got := p.At(500); got != 1500*time.Millisecond {
		t.Errorf("packet 500 is due at %v", got)
	}
}

func TestLatencyCountsFromWhenTheRequestWasDue(t *testing.T) {
	t.Parallel()
	l := NewLatencies()
	p := Pace{Rate: 1000}
	// The path stalls for 100 ms: 100 requests are answered at its end.
	for i := range 1000 {
		answered := p.At(i) + 50*time.Microsecond
		if stalled := 500 * time.Millisecond; i >= 400 && i < 500 {
			answered = stalled
		}
		l.Record(p.At(i), answered)
	}
	about(t, "p50", l.At(0.5), 50*time.Microsecond)
	about(t, "p99", l.At(0.99), 91*time.Millisecond)
	about(t, "p99.9", l.At(0.999), 100*time.Millisecond)
	if l.Count() != 1000 {
		t.Errorf("%d responses", l.Count())
	}
	m, err := l.Metrics()
	if err != nil || m["p50-ns"] != float64(l.At(0.5)) || len(m) != len(quantiles) {
		t.Errorf("metrics %v, %v", m, err)
	}
}

// about allows for the histogram's 3 digits and for the step size.
func about(t *testing.T, name string, got, want time.Duration) {
	t.Helper()
	if math.Abs(float64(got-want)) > 0.015*float64(want) {
		t.Errorf("%s is %v, want %v", name, got, want)
	}
}

func TestMissingResponsesAreAnError(t *testing.T) {
	t.Parallel()
	if m, err := NewLatencies().Metrics(); err == nil {
		t.Errorf("metrics of an empty collection: %v", m)
	}
}

func TestResponsesBeyondTheRangeAreKept(t *testing.T) {
	t.Parallel()
	l := NewLatencies()
	l.Record(0, time.Hour)
	l.Record(time.Second, 0) // impossible with one machine's clock, but not in a test
	if l.Count() != 2 {
		t.Errorf("%d responses", l.Count())
	}
}

// path carries capacity packets per second and loses the rest.
func path(capacity float64, trials *int) func(rate float64) (Trial, error) {
	return func(rate float64) (Trial, error) {
		*trials++
		const packets = 1_000_000
		return Trial{Wanted: packets, Sent: packets, Received: int(packets * min(1, capacity/rate))}, nil
	}
}

func TestSearchFindsWhatAPathCarries(t *testing.T) {
	t.Parallel()
	for _, capacity := range []float64{150, 99_000, 100_000, 1e6, 33e6} {
		var trials int
		const resolution = 0.001
		got, err := Search([]float64{PDR, NDR}, Limits{Start: 100_000, Resolution: resolution, Trials: 60}, path(capacity, &trials))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []float64{capacity / (1 - PDR), capacity} {
			if got[i] > want*1.00001 || got[i] < want*(1-resolution)*0.99999 {
				t.Errorf("capacity %v: goal %d is %v, want %v (%d trials)", capacity, i, got[i], want, trials)
			}
		}
		if trials > 40 {
			t.Errorf("capacity %v: %d trials", capacity, trials)
		}
	}
}

func TestSearchToleratesABusyMoment(t *testing.T) {
	t.Parallel()
	var trials int
	carries := path(100_000, &trials)
	got, err := Search([]float64{NDR}, Limits{Start: 10_000, Resolution: 0.01, Trials: 100, Attempts: 2}, func(rate float64) (Trial, error) {
		result, err := carries(rate)
		if trials%3 == 0 {
			result.Received /= 2
		}
		return result, err
	})
	if err != nil || got[0] < 99_000 || got[0] > 100_000 {
		t.Errorf("found %v, %v", got, err)
	}
}

func TestSearchNeverExceedsItsTrials(t *testing.T) {
	t.Parallel()
	var trials int
	if _, err := Search([]float64{NDR}, Limits{Start: 1, Resolution: 1e-9, Trials: 7}, path(1e6, &trials)); err != nil || trials != 7 {
		t.Errorf("%d trials, %v", trials, err)
	}
}

func TestSearchOfABrokenPathFindsNothing(t *testing.T) {
	t.Parallel()
	var trials int
	got, err := Search([]float64{NDR}, Limits{Start: 1000, Resolution: 0.01, Trials: 10}, path(0, &trials))
	if err != nil || got[0] != 0 || trials != 10 {
		t.Errorf("found %v after %d trials, %v", got, trials, err)
	}
}

func TestPassAboveAFailureDoesNotCount(t *testing.T) {
	t.Parallel()
	b := bracket{goal: NDR, failed: math.Inf(1)}
	for _, step := range []struct{ rate, loss, passed, failed float64 }{
		{100, 0, 100, math.Inf(1)},
		{200, 0, 200, math.Inf(1)},
		{150, 0.1, 100, 150}, // 200 passed by chance; 100 still counts
		{120, 0, 120, 150},
		{400, 0, 120, 150},
		{90, 0.1, 0, 90},
	} {
		if b.learn(step.rate, step.loss); b.passed != step.passed || b.failed != step.failed {
			t.Errorf("after %v with a loss of %v: passed %v, failed %v; want %v, %v", step.rate, step.loss, b.passed, b.failed, step.passed, step.failed)
		}
	}
}

func TestSearchEndsWithTheTrialsError(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := Search([]float64{NDR}, Limits{Start: 1, Resolution: 1, Trials: 1}, func(float64) (Trial, error) { return Trial{}, broken }); !errors.Is(err, broken) {
		t.Errorf("error is %v", err)
	}
	if _, err := Search([]float64{NDR}, Limits{}, nil); err == nil {
		t.Error("Search accepted missing limits")
	}
}

func TestSlowSenderCountsAsLoss(t *testing.T) {
	t.Parallel()
	if got := (Trial{Wanted: 1000, Sent: 900, Received: 900}).Loss(); math.Abs(got-0.1) > 1e-12 {
		t.Errorf("loss is %v", got)
	}
	if got := (Trial{}).Loss(); got != 1 {
		t.Errorf("loss of an empty trial is %v", got)
	}
}

func TestCPUTimeIsRelatedToBytes(t *testing.T) {
	t.Parallel()
	if got := PerGB(2*time.Second, 500e6); got != 4 {
		t.Errorf("2 s for 0.5 GB are %v s per GB", got)
	}
	if used, err := CPUTime(); err != nil || used <= 0 {
		t.Errorf("this process has used %v, %v", used, err)
	}
}

func TestResidentMemoryIsRead(t *testing.T) {
	t.Parallel()
	if got, err := residentPages([]byte("5000 123 80 1 0 9 0\n"), 4096); err != nil || got != 123*4096 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := residentPages(nil, 4096); err == nil {
		t.Error("invalid input was accepted")
	}
	if got, err := Resident(); err != nil || got == 0 {
		t.Errorf("this process has %d, %v", got, err)
	}
}
