//go:build linux

package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/node/genl"
)

// namePrefix is the prefix of the names of all objects of the rig:
// strait-bench-PID-SUBJECT-ROLE. Two runs never conflict, and a later run can identify the
// leftovers of one that was killed.
const namePrefix = "strait-bench-"

// home is the namespace in which this process was started.
var home = openNamespace("/proc/self/ns/net")

func openNamespace(path string) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1 // entering it returns the error
	}
	return fd
}

// namespace is one network namespace of the topology.
type namespace struct {
	role string // podA, nodeA, ...
	name string // as in `ip netns`
	fd   int
}

func newNamespace(subject, role string) (*namespace, error) {
	n := &namespace{role: role, name: fmt.Sprintf("%s%d-%s-%s", namePrefix, os.Getpid(), subject, role)}
	if err := runCommand("ip", "netns", "add", n.name); err != nil {
		return nil, err
	}
	n.fd = openNamespace("/run/netns/" + n.name)
	return n, nil
}

// remove deletes the namespace and all devices in it.
func (n *namespace) remove() error {
	unix.Close(n.fd)
	return runCommand("ip", "netns", "del", n.name)
}

// removeStaleNamespaces deletes the leftovers of runs that have ended.
func removeStaleNamespaces() {
	entries, _ := filepath.Glob("/run/netns/" + namePrefix + "*")
	for _, entry := range entries {
		if abandoned(filepath.Base(entry)) {
			_ = runCommand("ip", "netns", "del", filepath.Base(entry)) // another run may delete it at the same time
		}
	}
}

// abandoned reports whether an object with a name of the rig belongs to a run that has
// ended.
func abandoned(name string) bool {
	owner, _, _ := strings.Cut(strings.TrimPrefix(name, namePrefix), "-")
	pid, err := strconv.Atoi(owner)
	return err == nil && unix.Kill(pid, 0) == unix.ESRCH
}

// in runs f on a thread inside n. Sockets and processes that f creates stay in n;
// goroutines that f starts run outside.
func (n *namespace) in(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", n.name, err)
	}
	defer func() {
		if err := unix.Setns(home, unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("leave %s: %v", n.name, err)) // the thread must not return to the pool in another namespace
		}
	}()
	return f()
}

// sysctl sets values below /proc/sys/net.
func (n *namespace) sysctl(values map[string]string) error {
	return n.in(func() error {
		for key, value := range values {
			if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
				return fmt.Errorf("in %s: %w", n.role, err)
			}
		}
		return nil
	})
}

// ip runs one `ip` command per line of script, and stops at the first that fails.
func (n *namespace) ip(script string) error {
	cmd := exec.Command("ip", "-n", n.name, "-batch", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("in %s: ip: %w\n%sof the script:\n%s", n.role, err, out, script)
	}
	return nil
}

// genl runs f with a generic netlink socket of n.
func (n *namespace) genl(f func(*genl.Conn) error) error {
	var c *genl.Conn
	if err := n.in(func() (err error) {
		c, err = genl.Open()
		return err
	}); err != nil {
		return err
	}
	return errors.Join(f(c), c.Close())
}

// run runs a command inside n, for at most a minute.
func (n *namespace) run(stdin string, command ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.in(cmd.Start); err != nil {
		return fmt.Errorf("in %s: %s: %w", n.role, command[0], err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("in %s: %s: %w\n%s", n.role, strings.Join(command, " "), err, out.Bytes())
	}
	return nil
}

// runCommand runs a command in this process's namespace.
func runCommand(command ...string) error {
	if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, out)
	}
	return nil
}
