//go:build nightly

package clusters

import (
	"testing"
	"time"
)

const (
	// away is how long the API servers are gone: longer than any retry waits, leases and
	// tokens of watches among it.
	away   = 2*time.Minute + 10*time.Second
	harm   = 15 * time.Second // the time in which a restart could do harm
	timely = true             // tests say how soon things have to happen
)

// beside says whether a test runs beside others. Here it runs alone, as times are measured.
func beside(*testing.T) {}

// within waits for something that others bring about, and returns how long it took.
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
