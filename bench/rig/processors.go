package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is CPU time used so far. The sum is the cost of the whole path: packet work in a
// soft interrupt is accounted to the interrupted process or to ksoftirqd.
type usage struct {
	gateways, ends, softirq time.Duration
}

func (u usage) total() time.Duration { return u.gateways + u.ends + u.softirq }

func (u usage) since(before usage) usage {
	return usage{u.gateways - before.gateways, u.ends - before.ends, u.softirq - before.softirq}
}

// usage reads the CPU time of both groups of a topology, and of ksoftirqd.
func (r *Rig) usage(t *topology) (u usage, err error) {
	var failed [2]error
	u.gateways, failed[0] = t.gateways.cpu()
	u.ends, failed[1] = t.ends.cpu()
	for _, file := range r.softirqd {
		text, err := os.ReadFile(file)
		if err != nil {
			return u, err
		}
		t, err := parseSchedstat(string(text))
		if err != nil {
			return u, fmt.Errorf("%s: %w", file, err)
		}
		u.softirq += t
	}
	return u, errors.Join(failed[:]...)
}

// findSoftirqd returns the schedstat files of the ksoftirqd threads.
func findSoftirqd() (files []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(text), "ksoftirqd/") {
			files = append(files, filepath.Join(filepath.Dir(name), "schedstat"))
		}
	}
	return files
}

// parseSchedstat parses time on a CPU, the first field of /proc/PID/schedstat, nanoseconds.
func parseSchedstat(text string) (time.Duration, error) {
	first, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	n, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("no schedstat: %q", text)
	}
	return time.Duration(n), nil
}

// parseStatus parses a line of /proc/PID/status in kB, where the kernel means 1024 bytes.
func parseStatus(text, field string) (bytes float64, err error) {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == field {
			n, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64)
			return n * 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/PID/status", field)
}
