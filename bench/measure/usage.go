//go:build linux

package measure

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the CPU time of all threads of this process, including kernel work on its behalf.
func CPUTime() (time.Duration, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return 0, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}

// ThreadTime returns the CPU time of the calling thread, including kernel work on its
// behalf, with a resolution of nanoseconds: for spans too short for CPUTime. The goroutine
// must be locked to its thread between two calls.
func ThreadTime() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("read the CPU time of this thread: %w", err)
	}
	return time.Duration(t.Nano()), nil
}

// PerGB returns CPU-seconds per 10^9 bytes.
func PerGB(used time.Duration, bytes float64) float64 { return used.Seconds() / (bytes / 1e9) }

// Resident returns the resident memory of this process in bytes.
func Resident() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("read the memory of this process: %w; mount /proc", err)
	}
	return residentPages(text, os.Getpagesize())
}

// residentPages reads the second field of /proc/PID/statm, in pages; proc(5).
func residentPages(statm []byte, pageSize int) (uint64, error) {
	var size, resident uint64
	if _, err := fmt.Fscan(bytes.NewReader(statm), &size, &resident); err != nil {
		return 0, fmt.Errorf("read /proc/self/statm %q: %w", statm, err)
	}
	return resident * uint64(pageSize), nil
}
