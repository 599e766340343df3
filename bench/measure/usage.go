//go:build linux

package measure

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the resource use of this process, including kernel work on its behalf.
type Usage struct {
	CPU time.Duration // user and system, of all threads
}

// UsageNow reads the current usage.
func UsageNow() (Usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	return Usage{time.Duration(r.Utime.Nano() + r.Stime.Nano())}, nil
}

// Since returns the difference from an earlier usage.
func (u Usage) Since(before Usage) Usage { return Usage{u.CPU - before.CPU} }

// PerGB returns CPU-seconds per 10^9 bytes.
func (u Usage) PerGB(bytes float64) float64 { return u.CPU.Seconds() / (bytes / 1e9) }

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
