package lab

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Every namespace has the name strait-lab-PID-SERIAL-ROLE, and the working directory
// strait-lab-PID-*, so that two runs never conflict and a later run can identify the
// leftovers of one that was killed.
const namePrefix = "strait-lab-"

// serial is the number of namespaces so far.
var serial atomic.Int32

// home is the namespace in which this process was started.
var home = openHome()

func openHome() int {
	fd, err := unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return fd
}

// Namespace is one network namespace of the topology.
type Namespace struct {
	Role string // podA, nodeA, ...
	Name string // as in `ip netns`
	fd   int
}

// NewNamespace creates a namespace that is removed when the test ends, or skips the test with
// the reason. sysctls are set before any link exists.
func NewNamespace(t *testing.T, role string, sysctls map[string]string) *Namespace {
	t.Helper()
	Need(t)
	n := &Namespace{Role: role, Name: fmt.Sprintf("%s%d-%d-%s", namePrefix, os.Getpid(), serial.Add(1), role)}
	if out, err := exec.Command("ip", "netns", "add", n.Name).CombinedOutput(); err != nil {
		t.Fatalf("ip netns add %s: %v\n%s", n.Name, err, out)
	}
	t.Cleanup(func() {
		unix.Close(n.fd)
		if out, err := exec.Command("ip", "netns", "del", n.Name).CombinedOutput(); err != nil {
			t.Errorf("ip netns del %s: %v\n%s", n.Name, err, out)
		}
	})
	var err error
	if n.fd, err = unix.Open("/run/netns/"+n.Name, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	for key, value := range sysctls {
		if err := n.In(func() error { return os.WriteFile("/proc/sys/net/"+key, []byte(value), 0) }); err != nil {
			t.Fatalf("in %s: %v", role, err)
		}
	}
	n.IP(t, "link set lo up")
	return n
}

// removeStale deletes the namespaces and working directories of killed runs.
func removeStale() {
	for _, name := range stale("/run/netns") {
		_ = exec.Command("ip", "netns", "del", name).Run() // another run may delete it at the same time
	}
	for _, name := range stale(os.TempDir()) {
		_ = os.RemoveAll(filepath.Join(os.TempDir(), name))
	}
}

// stale lists the entries of a directory that carry the PID of an ended process.
func stale(dir string) (names []string) {
	entries, _ := filepath.Glob(filepath.Join(dir, namePrefix+"*"))
	for _, entry := range entries {
		name := filepath.Base(entry)
		pid, _, _ := strings.Cut(strings.TrimPrefix(name, namePrefix), "-")
		if n, err := strconv.Atoi(pid); err == nil && unix.Kill(n, 0) == unix.ESRCH {
			names = append(names, name)
		}
	}
	return names
}

// In runs f on a thread inside n. Sockets and processes that f creates stay in n;
// goroutines that f starts run outside.
func (n *Namespace) In(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("setns %s: %w", n.Role, err)
	}
	defer func() {
		if err := unix.Setns(home, unix.CLONE_NEWNET); err != nil {
			panic(fmt.Sprintf("setns home: %v", err)) // the thread must not return to the pool in another namespace
		}
	}()
	return f()
}

// IP runs one `ip` command per line of script and fails the test at the first error.
func (n *Namespace) IP(t *testing.T, script string) {
	t.Helper()
	cmd := exec.Command("ip", "-n", n.Name, "-batch", "-")
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("in %s: ip: %v\n%s\nscript:\n%s", n.Role, err, out, script)
	}
}

// Try runs a command inside n and returns its output of both streams.
func (n *Namespace) Try(command string, args ...string) (string, error) {
	cmd := exec.Command(command, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.In(cmd.Start); err != nil {
		return "", fmt.Errorf("in %s: %s: %w", n.Role, command, err)
	}
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("in %s: %s: %w", n.Role, strings.Join(cmd.Args, " "), err)
	}
	return out.String(), nil
}

// Run is try for a command that must succeed.
func (n *Namespace) Run(t *testing.T, command string, args ...string) string {
	t.Helper()
	out, err := n.Try(command, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}
