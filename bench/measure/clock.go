package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// Clock is a monotonic clock that starts at zero. Safe for concurrent use.
type Clock struct{ start time.Time }

// NewClock returns a clock that starts now.
func NewClock() Clock { return Clock{time.Now()} }

// Now is the time since the clock's start.
func (c Clock) Now() time.Duration { return time.Since(c.start) }

// SleepUntil returns at a moment of the clock or a little later: how much later,
// whoever paces by it has to measure. Go's own timers would round up to 1 ms when
// a process idles; this blocks a thread instead, and no core.
func (c Clock) SleepUntil(t time.Duration) {
	for left := t - c.Now(); left > 0; left = t - c.Now() {
		rest := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&rest, nil) // interrupted: the loop looks how much is left
	}
}

// Sharp makes SleepUntil wake in time on the calling thread: the kernel otherwise
// adds up to 50 µs to gather wake-ups. Call it with the goroutine locked to its
// thread.
func Sharp() {
	const slack = 1                                        // ns
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, slack, 0, 0, 0) // refused: lateness is measured anyway
}
