package measure

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime is the CPU time that the calling thread has used so far, kernel work
// on its behalf included, to the nanosecond: for spans too short for Usage. Lock the
// goroutine to its thread around two calls.
func ThreadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("ask the kernel for the CPU time of this thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}
