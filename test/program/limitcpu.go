package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// LimitCPU holds a process to a part of a CPU until the test ends, as the CPU limit of a
// container does; a later call replaces the limit, 0 = none. The periods in which the kernel counts begin at a
// random time, another one after each call. It skips the test if the machine has no control groups for that.
func LimitCPU(t testing.TB, pid int, cpus float64) {
	t.Helper()
	const period = 100_000 // microseconds, as kubelet sets it
	root, file, none, after := "/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "-1", ""
	if _, err := os.Stat(root); err != nil {
		root, file, none, after = "/sys/fs/cgroup", "cpu.max", "max", " "+strconv.Itoa(period)
		_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+cpu"), 0) // it may be enabled
	}
	quota := none
	if cpus > 0 {
		quota = strconv.Itoa(int(cpus * period))
	}
	dir := filepath.Join(root, fmt.Sprintf("strait-test-%d-%d", os.Getpid(), pid))
	remove := func() {
		_ = os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) // it may have ended
		_ = os.Remove(dir)
	}
	remove() // a group has its periods as long as it exists
	for _, err := range []error{
		os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, file), []byte(quota+after), 0),
		os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0),
	} {
		if err != nil {
			t.Skipf("left out: no control group that limits CPU time: %v", err)
		}
	}
	t.Cleanup(remove)
}
