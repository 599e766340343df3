//go:build linux

package userspace

import (
	"sync/atomic"
	"time"
)

const (
	// persistent is how long failures must last: moving routes cause a few.
	persistent = 10 * time.Second

	// forgotten is the time without failure after which sending counts as working again.
	// Gateways are probed every few seconds, so a lasting failure is noticed.
	forgotten = 30 * time.Second
)

// sendFailures tracks since when sending fails repeatedly. One goroutine writes, any may read.
type sendFailures struct{ first, last atomic.Int64 } // Unix times in nanoseconds; 0: never

func (t *sendFailures) note(now time.Time) {
	if now.UnixNano()-t.last.Load() >= int64(forgotten) {
		t.first.Store(now.UnixNano())
	}
	t.last.Store(now.UnixNano())
}

func (t *sendFailures) persists(now time.Time) bool {
	first, last := t.first.Load(), t.last.Load()
	return last-first >= int64(persistent) && now.UnixNano()-last < int64(forgotten)
}
