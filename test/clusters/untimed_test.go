//go:build apiserver && !nightly

package clusters

import (
	"testing"
	"time"

	"strait.dev/strait/test/kube"
)

// In this tier nothing is said of how soon things happen: tests run beside each other and
// beside those of other packages, and API servers come back at once. The measured tier has
// the same tests with limits.
const (
	away   = 0 * time.Second // how long API servers are gone after everything else was tried
	harm   = 3 * time.Second // how long traffic is watched after restarts
	timely = false
)

func beside(t *testing.T) { t.Parallel() }

// within waits for something that others bring about, and returns how long it took.
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
