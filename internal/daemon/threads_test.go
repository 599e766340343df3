package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func idleProcessors(n float64) func() float64 { return func() float64 { return n } }

func TestThreadsGrowOnlyWhenBusyOnAMachineWithProcessorsToSpare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used, spare float64
		want        int
	}{
		"busy, processors idle": {0.98, 1.2, 2},
		"busy, machine full":    {0.98, 0.1, 1},
		"half busy":             {0.5, 3, 1},
		"idle":                  {0.01, 3.9, 1},
	} {
		p := threads{now: 1, most: 4}
		if got := p.next(c.used, idleProcessors(c.spare)); got != c.want {
			t.Errorf("%s: %d threads, want %d", name, got, c.want)
		}
	}
}

func TestThreadsNeverExceedTheMost(t *testing.T) {
	t.Parallel()
	p := threads{now: 1, most: 3}
	for range 10 {
		p.next(float64(p.now), idleProcessors(8))
	}
	if p.now != 3 {
		t.Errorf("%d threads, want 3", p.now)
	}
}

func TestThreadsAreGivenBackAfterAQuietWhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		used      float64
		intervals int // until one thread less
	}{
		"one less would do":           {1.2, threadsPatience},
		"one less would do with ease": {0.3, threadsPatience / threadsHaste},
		"idle":                        {0, threadsPatience / threadsHaste},
	} {
		p := threads{now: 3, most: 4}
		for i := range c.intervals - 1 {
			if got := p.next(c.used, idleProcessors(4)); got != 3 {
				t.Errorf("%s: %d threads after %d intervals, want 3", name, got, i+1)
			}
		}
		if got := p.next(c.used, idleProcessors(4)); got != 2 {
			t.Errorf("%s: %d threads after %d intervals, want 2", name, got, c.intervals)
		}
	}
}

func TestTheLastThreadIsNotGivenBack(t *testing.T) {
	t.Parallel()
	p := threads{now: 2, most: 4}
	for range 3 * threadsPatience {
		p.next(0, idleProcessors(4))
	}
	if p.now != 1 {
		t.Errorf("%d threads when idle, want 1", p.now)
	}
}

func TestABurstResetsThePatience(t *testing.T) {
	t.Parallel()
	p := threads{now: 2, most: 2}
	for range 5 {
		for range threadsPatience - 1 {
			p.next(0.6, idleProcessors(1))
		}
		p.next(1.5, idleProcessors(0))
	}
	if p.now != 2 {
		t.Errorf("%d threads, want 2", p.now)
	}
}

func TestAChangedCPULimitIsNoticedOnce(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cpu.max")
	l := cpuLimit{files: []string{filepath.Join(t.TempDir(), "missing"), file}}
	if l.changed() {
		t.Error("no file is a change")
	}
	for _, limit := range []string{"max 100000\n", "250000 100000\n"} {
		if err := os.WriteFile(file, []byte(limit), 0o600); err != nil {
			t.Fatal(err)
		}
		if !l.changed() || l.changed() {
			t.Errorf("%q is not noticed exactly once", limit)
		}
	}
}

func TestIdleTimeIsReadFromProcStat(t *testing.T) {
	t.Parallel()
	stat := []byte("cpu  10 20 30 4000 500 6 7 8 9 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
	if got := idleTime(stat); got != 45*time.Second {
		t.Errorf("%v, want 45s", got)
	}
	for _, malformed := range []string{"", "cpu 1 2", "\n"} {
		if got := idleTime([]byte(malformed)); got != 0 {
			t.Errorf("%q: %v", malformed, got)
		}
	}
}

// With one processor followLoad does not run: what one reload takes would never
// come back, and the next would take another.
func TestWorkOutsideThePacketPathReturnsItsThread(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	var extra atomic.Int32
	failed := errors.New("failed")
	for range 3 {
		err := withExtraThread(&extra, func() error {
			if n := runtime.GOMAXPROCS(0); n != before+1 || extra.Load() != 1 {
				t.Errorf("%d threads and %d extra during the work, want %d and 1", n, extra.Load(), before+1)
			}
			return failed
		})
		if !errors.Is(err, failed) || runtime.GOMAXPROCS(0) != before || extra.Load() != 0 {
			t.Errorf("%v; %d threads and %d extra afterwards, want %d and 0", err, runtime.GOMAXPROCS(0), extra.Load(), before)
		}
	}
}

func TestOnlyAProcessAtRestIsMeasuredRarely(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now  int
		used float64
		want time.Duration
	}{
		"at rest":              {1, 0.01, threadsRest},
		"one thread in use":    {1, threadsAtRest, threadsInterval},
		"two threads, at rest": {2, 0.01, threadsInterval}, // one of them is to be removed soon
	} {
		p := threads{now: c.now, most: 4}
		if got := p.pause(c.used); got != c.want {
			t.Errorf("%s: measured after %v, want %v", name, got, c.want)
		}
	}
}
