package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"strait.dev/strait/internal/netns"
)

// The control group mounts of the kernel, by version. Both account the CPU time of exactly
// the processes in a group.
const (
	cgroupRoot   = "/sys/fs/cgroup"
	accountV1    = cgroupRoot + "/cpuacct"
	sharesV1     = cgroupRoot + "/cpu"
	unifiedV2    = cgroupRoot
	unifiedAside = cgroupRoot + "/unified" // version 2 next to version 1
)

// cgroups are the rig's own control groups: other load does not enter the figures.
type cgroups struct {
	roots []string // of every hierarchy in use; the first one does the accounting
	usage string   // name of the accounting file of a group
}

// cgroup is one group.
type cgroup struct {
	folders []string // a process joins all of them
	usage   string   // file
}

func newCgroups() (*cgroups, error) {
	root, usage, err := findAccounting()
	if err != nil {
		return nil, err
	}
	hierarchies := []string{root}
	if _, err := os.Stat(filepath.Join(sharesV1, "cpu.shares")); err == nil && root == accountV1 {
		hierarchies = append(hierarchies, sharesV1)
	}
	g := &cgroups{usage: usage}
	for _, hierarchy := range hierarchies {
		removeStaleCgroups(hierarchy)
		root := filepath.Join(hierarchy, namePrefix+strconv.Itoa(os.Getpid()))
		if err := os.MkdirAll(root, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("create a control group: %w; check that %s is writable", err, hierarchy), g.remove())
		}
		g.roots = append(g.roots, root)
		// Other load on the machine gets a lower share, if the kernel supports it.
		_ = os.WriteFile(filepath.Join(root, "cpu.shares"), []byte("262144"), 0)
		_ = os.WriteFile(filepath.Join(root, "cpu.weight"), []byte("10000"), 0)
	}
	return g, nil
}

func (g *cgroups) make(name string) (*cgroup, error) {
	c := &cgroup{usage: filepath.Join(g.roots[0], name, g.usage)}
	for _, root := range g.roots {
		folder := filepath.Join(root, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, fmt.Errorf("create a control group: %w", err)
		}
		c.folders = append(c.folders, folder)
	}
	return c, nil
}

func findAccounting() (root, usage string, err error) {
	if _, err := os.Stat(filepath.Join(accountV1, "cpuacct.usage")); err == nil {
		return accountV1, "cpuacct.usage", nil
	}
	for _, root := range []string{unifiedV2, unifiedAside} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
			return root, "cpu.stat", nil
		}
	}
	return "", "", fmt.Errorf("no control groups at %s to account CPU time; mount cgroup2 there", cgroupRoot)
}

// parseUsage parses cpuacct.usage of version 1, which is nanoseconds, or usage_usec of cpu.stat of
// version 2.
func parseUsage(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		key, value, named := strings.Cut(strings.TrimSpace(line), " ")
		unit := time.Microsecond
		if !named {
			key, value, unit = "usage_usec", key, time.Nanosecond
		}
		if key == "usage_usec" {
			n, err := strconv.ParseInt(value, 10, 64)
			return time.Duration(n) * unit, err
		}
	}
	return 0, errors.New("cpu.stat has no usage_usec")
}

func (c *cgroup) cpu() (time.Duration, error) {
	text, err := os.ReadFile(c.usage)
	if err != nil {
		return 0, err
	}
	return parseUsage(string(text))
}

// processFiles returns the files to which a process writes its PID to join.
func (c *cgroup) processFiles() (files []string) {
	for _, f := range c.folders {
		files = append(files, filepath.Join(f, "cgroup.procs"))
	}
	return files
}

// remove deletes the groups, which must be empty.
func (g *cgroups) remove() (failed error) {
	for _, root := range g.roots {
		failed = errors.Join(failed, removeCgroup(root))
	}
	return failed
}

// removeCgroup deletes a group and its children. A process that has just ended may remain
// in its group for a moment.
func removeCgroup(root string) error {
	var err error
	for range 50 {
		children, _ := filepath.Glob(root + "/*/cgroup.procs")
		for _, child := range children {
			_ = os.Remove(filepath.Dir(child))
		}
		if err = os.Remove(root); err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("remove the control group: %w; a process in it is still running", err)
}

func removeStaleCgroups(root string) {
	stale, _ := filepath.Glob(filepath.Join(root, namePrefix+"*"))
	for _, folder := range stale {
		if netns.Abandoned(namePrefix, filepath.Base(folder)) {
			_ = removeCgroup(folder)
		}
	}
}
