package measure

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is what this process has used so far, kernel work on its behalf included.
type Usage struct {
	CPU time.Duration // user and system, of all threads
}

// UsageNow asks the kernel.
func UsageNow() (Usage, error) {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		return Usage{}, fmt.Errorf("ask the kernel for the CPU time of this process: %w", err)
	}
	return Usage{time.Duration(r.Utime.Nano() + r.Stime.Nano())}, nil
}

// Since is what was used between two moments.
func (u Usage) Since(before Usage) Usage { return Usage{u.CPU - before.CPU} }

// PerGB is CPU-seconds per 10^9 bytes.
func (u Usage) PerGB(bytes float64) float64 { return u.CPU.Seconds() / (bytes / 1e9) }

// Resident is the memory of this process that is in RAM, bytes.
func Resident() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, fmt.Errorf("ask for the memory of this process: %w; mount /proc", err)
	}
	return residentPages(text, os.Getpagesize())
}

// residentPages reads the second figure of /proc/PID/statm, in pages; proc(5).
func residentPages(statm []byte, pageSize int) (uint64, error) {
	var size, resident uint64
	if _, err := fmt.Fscan(bytes.NewReader(statm), &size, &resident); err != nil {
		return 0, fmt.Errorf("read /proc/self/statm %q: %w", statm, err)
	}
	return resident * uint64(pageSize), nil
}
