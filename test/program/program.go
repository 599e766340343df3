// Package program runs the strait binary for tests like an installation: confined, in
// network namespaces, with access to API servers that listen on loopback outside.
package program

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"strait.dev/strait/test/netns"
)

// Privileges of programs, as arguments of setpriv. Gateways and controllers run as user
// nobody without capabilities; node helpers as root with CAP_NET_ADMIN only.
var (
	Unprivileged = []string{"--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"}
	OnlyNetAdmin = []string{"--bounding-set=-all,+net_admin", "--inh-caps=-all", "--no-new-privs"}
)

// Program is a running program. Only one goroutine at a time may use it.
type Program struct {
	cmd *exec.Cmd
	log *lines
}

// Start runs strait in a namespace, or in that of the test if n is nil, until the test
// ends. env is added to the environment. Its log is printed if the test fails.
func Start(t testing.TB, name string, n *netns.Namespace, confined, env []string, args ...string) *Program {
	t.Helper()
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	p := &Program{log: new(lines)}
	p.cmd = exec.Command("setpriv", append(append(append([]string{}, confined...), binary), args...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the test only
	begin := p.cmd.Start
	if n != nil {
		begin = func() error { return n.In(p.cmd.Start) }
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s logged:\n%s", name, p.Log())
		}
	})
	return p
}

// Kill kills the program, if it is still running.
func (p *Program) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended already
		_ = p.cmd.Wait()
	}
}

// patience is the time limit for a program to end.
const patience = 20 * time.Second

// Stop sends SIGTERM to the program and waits until it has ended.
func (p *Program) Stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait() // late.Stop reports whether it ended in time
	if !late.Stop() {
		t.Fatalf("%v does not end on SIGTERM", p.cmd.Args)
	}
}

// PID returns the process ID: setpriv execs the program.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// PeakMemory returns the largest resident memory of the program so far, in bytes.
func (p *Program) PeakMemory(t testing.TB) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var n int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &n); err == nil {
			return n << 10
		}
	}
	t.Fatalf("the program has ended; end of its log:\n%s", p.Log())
	return 0
}

// Log returns the end of the program's output.
func (p *Program) Log() string { return p.log.String() }

// lines is the end of a program's output. Safe for concurrent use.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// kept is the number of bytes kept.
const kept = 64 << 10

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text.Len() > 2*kept {
		l.text.Next(l.text.Len() - kept)
	}
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
