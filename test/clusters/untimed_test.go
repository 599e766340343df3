//go:build (apiserver || lab) && !nightly

package clusters

import (
	"testing"
	"time"

	"strait.dev/strait/test/kube"
)

// This tier checks no durations: tests run in parallel with each other and with those of
// other packages, and API servers return at once. The measured tier has the same tests
// with limits.
const (
	away      = 0 * time.Second // how long API servers stay unavailable at the end of the test
	watchTime = 3 * time.Second // how long traffic is watched after restarts
	kills     = 2               // with and without API servers
	timely    = false
	joinWait  = "1h" // --wait of strait peer: gateways start while it waits
)

// parallelUnlessTimed runs the test in parallel with others.
func parallelUnlessTimed(t *testing.T) { t.Parallel() }

// within waits for a condition that other processes bring about, and returns how long it
// took.
func within(t *testing.T, _ time.Duration, what string, done func() error) time.Duration {
	t.Helper()
	begun := time.Now()
	kube.Until(t, what, func() string {
		if err := done(); err != nil {
			return err.Error()
		}
		return ""
	})
	return time.Since(begun)
}
