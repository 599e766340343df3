//go:build linux

package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock is a monotonic clock that starts at zero. Safe for concurrent use.
type Clock struct{ start time.Time }

// NewClock returns a clock that starts now.
func NewClock() Clock { return Clock{time.Now()} }

// Now returns the time since the clock's start.
func (c Clock) Now() time.Duration { return time.Since(c.start) }

// SleepUntil returns at the given time or slightly later; a caller that paces by it must
// measure the delay. Go's timers would round up to 1 ms when a process is idle; this blocks
// a thread, but uses no CPU time.
func (c Clock) SleepUntil(t time.Duration) {
	for left := t - c.Now(); left > 0; left = t - c.Now() {
		rest := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&rest, nil) // interrupted: the loop computes the rest again
	}
}

// Sharp reduces the wake-up delay of SleepUntil on the calling thread: the kernel otherwise
// adds up to 50 µs to group wake-ups. The goroutine must be locked to its thread.
func Sharp() {
	const slack = 1                                        // ns
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0) // on error the delay is measured anyway
}
