package node

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// kept is a keeper in virtual time, whose kernel behaves as the test configures it.
type kept struct {
	desired chan Desired
	changed chan struct{} // capacity 1, like events.changed
	does    []Operation   // of each run
	over    []Takeover    // the same
	ahead   []Operation   // before the next run
	refuses int           // number of runs that fail from now on

	mu      sync.Mutex
	runs    []time.Duration // since the start of the bubble
	reports []Report
}

// startKeeper starts a keeper until the test ends, with desiredB achieved.
//
//strait:virtualtime
func startKeeper(t *testing.T) *kept {
	k := &kept{desired: make(chan Desired), changed: make(chan struct{}, 1)}
	began := time.Now()
	c := keeper{
		report: func(r Report) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.reports = append(k.reports, r)
		},
		achieve: func(Desired) ([]Operation, []Takeover, error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.runs = append(k.runs, time.Since(began))
			if k.refuses > 0 {
				k.refuses--
				return nil, nil, errors.New("refused")
			}
			return k.does, k.over, nil
		},
		ahead: func() []Operation {
			k.mu.Lock()
			defer k.mu.Unlock()
			ahead := k.ahead
			k.ahead = nil
			return ahead
		},
	}
	go c.keep(t.Context(), k.desired, k.changed)
	k.desired <- desiredB()
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slices.Equal(k.runs, []time.Duration{0}) || len(k.reports) != 1 || k.reports[0].Repair || k.reports[0].Err != nil {
		t.Fatalf("the first run was at %v, reports %+v", k.runs, k.reports)
	}
	return k
}

// after advances time and returns the runs and reports since the start.
//
//strait:virtualtime
func (k *kept) after(d time.Duration) ([]time.Duration, []Report) {
	time.Sleep(d)
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.runs[1:], k.reports[1:]
}

func TestBurstOfChangesCausesOneRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := startKeeper(t)
		k.does = make([]Operation, 1)
		for range 20 {
			k.changed <- struct{}{}
			k.after(settle / 20)
		}
		runs, reports := k.after(resync / 2)
		if !slices.Equal(runs, []time.Duration{settle}) {
			t.Errorf("ran at %v, want once after %v", runs, settle)
		}
		if len(reports) != 1 || !reports[0].Repair || reports[0].Fight {
			t.Errorf("reports %+v", reports)
		}
	})
}

func TestKernelIsReadEveryMinuteWithoutEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := startKeeper(t)
		runs, reports := k.after(3*resync + resync/2)
		if !slices.Equal(runs, []time.Duration{resync, 2 * resync, 3 * resync}) || len(reports) > 0 {
			t.Errorf("ran at %v, reports %+v", runs, reports)
		}
	})
}

func TestRetriesBackOffAndRecoveryIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := startKeeper(t)
		k.refuses = 8
		k.changed <- struct{}{}
		runs, reports := k.after(4 * time.Minute)
		var waited []time.Duration
		for i := range len(runs) - 1 {
			waited = append(waited, (runs[i+1]-runs[i])/time.Second)
		}
		want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 30, 60} // the last one is a resync
		if !slices.Equal(waited, want) {
			t.Errorf("waited %d seconds between the runs, want %d", waited, want)
		}
		if len(reports) != 9 {
			t.Fatalf("reports %+v, want one of each failure and one of the success", reports)
		}
		for i, r := range reports {
			if last := i == len(reports)-1; (r.Err == nil) != last {
				t.Errorf("report %d of %d: %+v", i+1, len(reports), r)
			}
		}
	})
}

// Another program undoes each repair at once.
func TestF9_RepairsOfAFightAreOnePerInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := startKeeper(t)
		k.does = make([]Operation, 1)
		const lasts = time.Minute
		for began := time.Now(); time.Since(began) < lasts; {
			select {
			case k.changed <- struct{}{}:
			default:
			}
			k.after(settle / 2)
		}
		runs, reports := k.after(0)
		if most := repairBurst + int(lasts/repairInterval); len(runs) < most-1 || len(runs) > most {
			t.Errorf("%d repairs in %v, want at most %d", len(runs), lasts, most)
		}
		for i, r := range reports {
			if fight := i >= repairBurst-1; !r.Repair || r.Fight != fight {
				t.Errorf("report %d: %+v", i+1, r)
			}
		}
	})
}

func TestInvalidDesiredStateIsReportedAndThePreviousOneStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := startKeeper(t)
		invalid := desiredB()
		invalid.Routes = append(invalid.Routes, Route{Prefix: prefixes("10.0.0.0/7")[0]})
		k.desired <- invalid
		runs, reports := k.after(0)
		if len(runs) != 0 || len(reports) != 1 || reports[0].Err == nil {
			t.Errorf("ran at %v, reports %+v", runs, reports)
		}
	})
}

// Groups are changed before the state that wants it arrives. A run for the state before sets them back.
func TestADifferenceFromANewerStateIsNoRepair(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := startKeeper(t)
		k.does, k.ahead = make([]Operation, 1), make([]Operation, 1)
		k.changed <- struct{}{}
		if _, reports := k.after(settle); len(reports) != 1 || reports[0].Repair || len(reports[0].Done) != 2 {
			t.Errorf("with a newer state: %+v", reports)
		}
		k.changed <- struct{}{}
		if _, reports := k.after(settle); len(reports) != 2 || !reports[1].Repair || len(reports[1].Done) != 1 {
			t.Errorf("without one: %+v", reports)
		}
	})
}
