// Package wait lets tests wait for conditions that no channel or callback announces,
// such as a counter that another goroutine increments after a datagram has crossed the
// kernel. It is the only place where tests outside of testing/synctest sleep.
package wait

import (
	"testing"
	"time"
)

const (
	interval = time.Millisecond
	// reserve is the part of the test binary's time (go test -timeout) that is kept to
	// report the missing condition.
	reserve = 10 * time.Second
)

// Until polls done every millisecond until it returns true. It has no time limit of its
// own, so a slow machine never fails a test: when half of the time that the test binary has
// left is gone, it fails t and names the condition. The other half is for the tests that
// follow, so one condition that never holds fails one test and not the package. done runs on
// the caller's goroutine. Not for synctest bubbles: use synctest.Wait there.
func Until(t testing.TB, condition string, done func() bool) {
	t.Helper()
	for limit := deadline(t); !done(); time.Sleep(interval) {
		if !limit.IsZero() && time.Now().After(limit) {
			t.Fatalf("half of the test binary's remaining time is over, and it is still not true that %s", condition)
		}
	}
}

// deadline returns when Until gives up, or zero if the test binary has no timeout.
func deadline(t testing.TB) time.Time {
	if t, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if limit, ok := t.Deadline(); ok {
			return time.Now().Add(time.Until(limit.Add(-reserve)) / 2)
		}
	}
	return time.Time{}
}
