// Package netns provides tests with kernel network namespaces, which are removed when the
// test ends.
package netns

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Namespace is a network namespace. Safe for concurrent use.
type Namespace struct{ fd int }

// tools are the required programs, and their Debian packages.
var tools = []struct{ name, pkg string }{
	{"ip", "iproute2"}, {"nft", "nftables"}, {"ping", "iputils-ping"},
}

// New creates a namespace, or skips the test with the reason.
func New(t testing.TB) *Namespace {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("left out: network namespaces need root; run the tests of this package with sudo")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool.name); err != nil {
			t.Skipf("left out: %s is not installed; run: apt-get install -y %s", tool.name, tool.pkg)
		}
	}
	fd, err := unshare()
	if err != nil {
		t.Skipf("left out: network namespaces cannot be created (%v); give the container CAP_SYS_ADMIN and CAP_NET_ADMIN", err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	n := &Namespace{fd}
	n.IP(t, "link set lo up")
	return n
}

// unshare creates a namespace on a thread that ends afterwards.
func unshare() (fd int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
	}()
	<-done
	return fd, err
}

// In runs f on a thread inside the namespace. Sockets and processes that f creates stay
// there; goroutines that f starts run outside.
func (n *Namespace) In(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			done <- fmt.Errorf("setns: %w", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// Here returns the `ip` arguments that put the other end of a link into the namespace.
func (n *Namespace) Here() string { return fmt.Sprintf("netns /proc/%d/fd/%d", os.Getpid(), n.fd) }

// IP runs one `ip` command per line of script. All must succeed.
func (n *Namespace) IP(t testing.TB, script string) {
	t.Helper()
	n.feed(t, script, "ip", "-batch", "-")
}

// NFT runs a script of nft, which must succeed.
func (n *Namespace) NFT(t testing.TB, script string) {
	t.Helper()
	n.feed(t, script, "nft", "-f", "-")
}

// Run runs a command, which must succeed, and returns its output.
func (n *Namespace) Run(t testing.TB, command string, args ...string) string {
	t.Helper()
	return n.feed(t, "", command, args...)
}

// Try runs a command and returns its output.
func (n *Namespace) Try(command string, args ...string) (string, error) {
	return n.run("", exec.Command(command, args...))
}

// Start runs a command in the background. The returned function waits for its end and
// returns its output.
func (n *Namespace) Start(t testing.TB, command string, args ...string) func() string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), command, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := n.In(cmd.Start); err != nil {
		t.Fatal(err)
	}
	return func() string {
		_ = cmd.Wait() // the output contains the error
		return out.String()
	}
}

func (n *Namespace) feed(t testing.TB, input, command string, args ...string) string {
	t.Helper()
	cmd := exec.Command(command, args...)
	out, err := n.run(input, cmd)
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", strings.Join(cmd.Args, " "), err, out, input)
	}
	return out
}

func (n *Namespace) run(input string, cmd *exec.Cmd) (string, error) {
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	if err := n.In(cmd.Start); err != nil {
		return "", err
	}
	err := cmd.Wait()
	return out.String(), err
}
