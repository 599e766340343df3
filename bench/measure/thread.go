//go:build linux

package measure

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime returns the CPU time of the calling thread, including kernel work on its
// behalf, with a resolution of nanoseconds: for spans too short for Usage. The goroutine
// must be locked to its thread between two calls.
func ThreadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of this thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
