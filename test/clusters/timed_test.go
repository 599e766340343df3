//go:build nightly

package clusters

import (
	"testing"
	"time"
)

const (
	// away is how long the API servers are unavailable: longer than any retry waits,
	// including leases and watch tokens.
	away      = 2*time.Minute + 10*time.Second
	watchTime = 15 * time.Second // how long traffic is watched after restarts
	kills     = 10               // with and without API servers
	timely    = true             // tests check durations
	joinWait  = "90s"            // --wait of strait peer: gateways start while it waits
)

// parallelUnlessTimed does not run the test in parallel, because times are measured.
func parallelUnlessTimed(*testing.T) {}

// within waits for a condition that other processes bring about, and returns how long it
// took.
func within(t *testing.T, limit time.Duration, what string, done func() error) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		err := done()
		took := time.Since(begun)
		if err == nil {
			return took
		}
		if took > limit {
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
