package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/internal/netns"
)

func TestCPUTimeIsReadFromEitherVersionOfControlGroups(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"1234567890\n": 1234567890 * time.Nanosecond, // cpuacct.usage
		"usage_usec 2500000\nuser_usec 1500000\nsystem_usec 1000000\n": 2500 * time.Millisecond,
	} {
		if got, err := parseUsage(text); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	if _, err := parseUsage("nr_periods 0\n"); err == nil {
		t.Error("no error for a file without usage")
	}
}

func TestSchedstatIsTimeOnTheCPU(t *testing.T) {
	t.Parallel()
	got, err := parseSchedstat("81930412 5550123 2211\n")
	if want := 81930412 * time.Nanosecond; err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := parseSchedstat(""); err == nil {
		t.Error("no error for an empty file")
	}
}

func TestMemoryIsReadInBytes(t *testing.T) {
	t.Parallel()
	const status = "Name:\tstrait\nVmHWM:\t   50176 kB\nVmRSS:\t   40000 kB\n"
	if got, err := parseStatus(status, "VmHWM"); err != nil || got != 50176*1024 {
		t.Errorf("VmHWM: %v, %v; want %d", got, err, 50176*1024)
	}
	if _, err := parseStatus(status, "VmSwap"); err == nil {
		t.Error("no error for a line that is missing")
	}
}

func TestThePeakOfACommandIsNotThatOfItsGateways(t *testing.T) {
	t.Parallel()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	running := &setting{topology: &topology{processes: []*process{{cmd: &exec.Cmd{Process: self}}}}}
	r := &repetitions{Rig: &Rig{Options: Options{Custom: []Custom{{Name: "mine", Command: "./up.sh"}}}}, peaks: make(map[string]float64)}
	if err := r.notePeaks(map[string]*setting{"mine": running, nameStrait: running}); err != nil {
		t.Fatal(err)
	}
	if len(r.peaks) != 1 || r.peaks[nameStrait] == 0 {
		t.Errorf("%v, want the peak of %s only", r.peaks, nameStrait)
	}
}

func TestUsageIsTheWholePath(t *testing.T) {
	t.Parallel()
	before := usage{gateways: 3 * time.Second, ends: time.Second, softirq: 7 * time.Second}
	after := usage{gateways: 5 * time.Second, ends: 2 * time.Second, softirq: 7500 * time.Millisecond}
	if got, want := after.since(before).total(), 3500*time.Millisecond; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOnlyLeftoversOfEndedRunsAreAbandoned(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"strait-bench-1-P-podA":       false, // PID 1 always runs
		"strait-bench-4194305-P-podA": true,  // above the largest PID
		"strait-bench-4194305":        true,
		"strait-bench-mine":           false,
		"another-4194305-network":     false,
	} {
		if got := netns.Abandoned(namePrefix, name); got != want {
			t.Errorf("%s: Abandoned is %v, want %v", name, got, want)
		}
	}
}

func TestDirectoriesOfKilledRunsAreRemoved(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	running := fmt.Sprintf("%s%d-123", dirPrefix, os.Getpid())
	for _, name := range []string{running, dirPrefix + "4194305-123", "another-4194305-123"} {
		if err := os.MkdirAll(filepath.Join(parent, name, "strait-a"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	removeStaleDirs(parent)
	var left []string
	entries, _ := os.ReadDir(parent)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if want := []string{"another-4194305-123", running}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}
