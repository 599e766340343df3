//go:build linux

// Package netns creates network namespaces, and runs functions and commands in them. It needs
// root.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. Safe for concurrent use.
type Namespace struct {
	Name string // as in `ip netns`; empty: it has none
	fd   int
}

// New creates a namespace without a name. It ends when it is closed and no process is in it
// any more; so it does not outlive this process.
func New() (n *Namespace, err error) {
	n = &Namespace{}
	return n, here(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("create a network namespace: %w", err)
		}
		n.fd, err = open("/proc/thread-self/ns/net")
		return err
	})
}

// Add creates a namespace with a name, like `ip netns add`. It remains until it is closed.
func Add(name string) (*Namespace, error) {
	if err := command("ip", "netns", "add", name); err != nil {
		return nil, err
	}
	fd, err := open("/run/netns/" + name)
	if err != nil {
		return nil, errors.Join(err, command("ip", "netns", "del", name))
	}
	return &Namespace{name, fd}, nil
}

// Close removes the namespace, and with it all devices in it. It waits for no process.
func (n *Namespace) Close() error {
	err := unix.Close(n.fd)
	if n.Name != "" {
		err = errors.Join(err, command("ip", "netns", "del", n.Name))
	}
	return err
}

// In runs f on a thread inside the namespace. Sockets and processes that f creates stay
// there; goroutines that f starts run outside.
func (n *Namespace) In(f func() error) error {
	return here(func() error {
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

// here runs f, which may move its thread to another namespace, and moves it back.
func here(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	home, err := open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer func() {
		if err := unix.Setns(home, unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("leave a network namespace: %v", err)) // the thread must not return to the pool in another one
		}
		_ = unix.Close(home) // it is open
	}()
	return f()
}

func open(path string) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the network namespace %s: %w", path, err)
	}
	return fd, nil
}

// Here returns the `ip` arguments that put the other end of a link into the namespace.
func (n *Namespace) Here() string { return fmt.Sprintf("netns /proc/%d/fd/%d", os.Getpid(), n.fd) }

// IP runs one `ip` command per line of script, and stops at the first that fails.
func (n *Namespace) IP(script string) error {
	out, err := n.Output(script, exec.Command("ip", "-batch", "-"))
	if err != nil {
		return fmt.Errorf("%w\n%sof the script:\n%s", err, out, script)
	}
	return nil
}

// Output runs a command with an input and returns what it prints to both streams.
func (n *Namespace) Output(input string, cmd *exec.Cmd) (string, error) {
	var out strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	err := n.In(cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
		if n.Name != "" {
			err = fmt.Errorf("in %s: %w", n.Name, err)
		}
	}
	return out.String(), err
}

// Set writes sysctls: values by their paths below /proc/sys/net.
func (n *Namespace) Set(sysctls map[string]string) error {
	return n.In(func() error {
		for key, value := range sysctls {
			if err := os.WriteFile("/proc/sys/net/"+key, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// Abandoned reports whether something belongs to a process that has ended: whether its name is
// the prefix and the ID of such a process, and perhaps more after a hyphen.
func Abandoned(prefix, name string) bool {
	rest, of := strings.CutPrefix(name, prefix)
	id, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(id)
	return of && err == nil && unix.Kill(pid, 0) == unix.ESRCH
}

// RemoveAbandoned removes the abandoned namespaces with a prefix.
func RemoveAbandoned(prefix string) {
	entries, _ := filepath.Glob("/run/netns/" + prefix + "*") // the pattern is well-formed
	for _, entry := range entries {
		if name := filepath.Base(entry); Abandoned(prefix, name) {
			_ = command("ip", "netns", "del", name) // another process may remove it at the same time
		}
	}
}

// command runs a command outside of namespaces.
func command(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
