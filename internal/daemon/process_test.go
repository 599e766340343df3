package daemon

import (
	"log/slog"
	"os"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/config"
)

// Not parallel: the setting is the process's.
func TestGarbageIsLimitedUnlessTheEnvironmentSaysHow(t *testing.T) {
	for given, want := range map[string]int{"": gcPercent, "300": 300} {
		t.Setenv("GOGC", given)
		before := debug.SetGCPercent(300) // as the runtime does with the variable
		p, err := Open(config.ListenAddress{}, Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if got := debug.SetGCPercent(before); got != want {
			t.Errorf("GOGC=%q: %d %%, want %d", given, got, want)
		}
	}
}

func TestF2_ADrainWaitsForNodesThatStillSend(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		limit        time.Duration
		sends, stops time.Duration // how long nodes send; when a signal arrives, 0: never
		takes        time.Duration
		idle         bool
	}{
		{"nodes have switched at once", 15 * time.Second, 0, 0, Drain + drainIdle, true},
		{"nodes switch in time", 15 * time.Second, time.Second, 0, Drain + drainIdle, true},
		{"nodes switch late", 15 * time.Second, 4*time.Second - 1, 0, 4*time.Second + drainIdle, true},
		{"nodes never switch", 15 * time.Second, time.Hour, 0, 15 * time.Second, false},
		{"there is no gateway to switch to", Drain, time.Hour, 0, Drain, true},
		{"it is stopped at once", 15 * time.Second, time.Hour, 3 * time.Second, 3 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, stop := time.Now(), make(chan os.Signal)
				if c.stops > 0 {
					time.AfterFunc(c.stops, func() { close(stop) })
				}
				forwarded := func() uint64 { return uint64(min(time.Since(began), c.sends) / time.Millisecond) }
				idle := untilIdle(stop, c.limit, forwarded)
				if took := time.Since(began); idle != c.idle || took != c.takes {
					t.Errorf("%v after %v, want %v after %v", idle, took, c.idle, c.takes)
				}
			})
		})
	}
}
