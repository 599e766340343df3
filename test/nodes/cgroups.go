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

// cgroups are the folders of one cgroup: in each hierarchy of version 1, or in the one of
// version 2.
type cgroups []string

// root is where cgroups are mounted.
const root = "/sys/fs/cgroup"

// delegated are the controllers of version 2 that a kubelet asks for.
const delegated = "+cpu +cpuset +io +memory +pids"

// newCgroups makes a cgroup beside nothing else, and records in a file what to remove.
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
			parents = append(parents, root) // not below our own, where processes are
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

// child makes a cgroup inside.
func (c cgroups) child(name string) (cgroups, error) {
	made := make(cgroups, len(c))
	for i, parent := range c {
		made[i] = filepath.Join(parent, name)
		if parent == root || strings.HasPrefix(parent, root+"/strait-nodes-") {
			if err := os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte(delegated), 0); err != nil {
				return nil, fmt.Errorf("give controllers to a cgroup: %w; run this where it may, like a container with its own cgroup namespace", err)
			}
		}
		if err := os.Mkdir(made[i], 0o755); err != nil {
			return nil, err
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // empty at first in version 1, and then of no use
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

// peak is the most memory that was used at once, in bytes.
func (c cgroups) peak() (int64, error) {
	for _, dir := range c {
		for _, file := range []string{"memory.peak", "memory.max_usage_in_bytes"} {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
				return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			}
		}
	}
	return 0, errors.New("this machine's cgroups do not count memory")
}

// removeCgroups removes recorded cgroups and all inside. They are empty as soon as the
// kernel is done with processes that were killed.
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
		const limit = 2 * time.Minute // for the kernel, which needs no processor time to speak of
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
