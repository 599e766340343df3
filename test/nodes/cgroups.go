package nodes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups are the directories of one cgroup: in each hierarchy of version 1, or in that of
// version 2.
type cgroups []string

// root is the mount point of cgroups.
const root = "/sys/fs/cgroup"

// delegated are the controllers of version 2 that a kubelet requires.
const delegated = "+cpu +cpuset +io +memory +pids"

// newCgroups creates a cgroup without siblings in use, and records in a file what to
// remove.
func newCgroups(record, name string) (cgroups, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	var parents cgroups
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		switch controllers := strings.TrimPrefix(fields[1], "name="); {
		case controllers != "":
			parents = append(parents, filepath.Join(root, controllers, fields[2]))
		case isVersion2(root):
			parents = append(parents, root) // not below this process's cgroup, which contains processes
		default:
			parents = append(parents, filepath.Join(root, "unified", fields[2]))
		}
	}
	made := make(cgroups, len(parents))
	for i, parent := range parents {
		made[i] = filepath.Join(parent, name)
	}
	if err := os.WriteFile(record, []byte(strings.Join(made, "\n")), 0o600); err != nil {
		return nil, err
	}
	return parents.child(name)
}

func isVersion2(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.controllers"))
	return err == nil
}

// child creates a child cgroup.
func (c cgroups) child(name string) (cgroups, error) {
	made := make(cgroups, len(c))
	for i, parent := range c {
		made[i] = filepath.Join(parent, name)
		if parent == root || strings.HasPrefix(parent, root+"/strait-nodes-") {
			if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte(delegated), 0); err != nil {
				return nil, fmt.Errorf("enable controllers of a cgroup: %w; run this with permission to do so, such as in a container with its own cgroup namespace", err)
			}
		}
		if err := os.Mkdir(made[i], 0o755); err != nil {
			return nil, err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // initially empty in version 1, which prevents use
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err != nil || parent == root || len(strings.TrimSpace(string(value))) == 0 {
				continue
			}
			if err := os.WriteFile(filepath.Join(made[i], file), value, 0); err != nil {
				return nil, err
			}
		}
	}
	return made, nil
}

// peak returns the peak memory use in bytes.
func (c cgroups) peak() (int64, error) {
	for _, dir := range c {
		for _, file := range []string{"memory.peak", "memory.max_usage_in_bytes"} {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			}
		}
	}
	return 0, errors.New("this machine's cgroups do not account memory")
}

// removeCgroups removes recorded cgroups and their children. They become empty when the
// kernel has removed killed processes.
func removeCgroups(record string) error {
	text, err := os.ReadFile(record)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, dir := range strings.Fields(string(text)) {
		err = errors.Join(err, removeCgroup(dir))
	}
	return err
}

func removeCgroup(dir string) error {
	var inside []string
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			inside = append(inside, path)
		}
		return nil
	})
	for _, path := range slices.Backward(inside) {
		const limit = 2 * time.Minute // for the kernel, which needs almost no processor time
		for deadline := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
			err := unix.Rmdir(path)
			if err == nil || errors.Is(err, unix.ENOENT) {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("remove cgroup %s: %w", path, err)
			}
		}
	}
	return nil
}
