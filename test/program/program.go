// Package program runs the strait binary for tests as an installation would: confined,
// in network namespaces, with access to API servers that listen on loopback outside.
package program

import (
	"bytes"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"strait.dev/strait/test/netns"
)

// How programs are confined, in arguments of setpriv. Gateways and controllers are nobody
// with nothing; helpers are root with the one capability that changes networks.
var (
	Unprivileged = []string{"--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"}
	OnlyNetAdmin = []string{"--bounding-set=-all,+net_admin", "--inh-caps=-all", "--no-new-privs"}
)

// Program is a running one. Its methods are for one goroutine at a time.
type Program struct {
	cmd *exec.Cmd
	log *lines
}

// Start runs strait in a namespace, or in that of the test if n is nil, until the test
// ends. Env is added to the environment. What it logged is shown when the test fails.
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
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for the test alone
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

// Kill ends the program at once, if it still runs.
func (p *Program) Kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		_ = p.cmd.Wait()
	}
}

// patience is how long a program may take to end.
const patience = 20 * time.Second

// Stop asks the program to end and waits until it has.
func (p *Program) Stop(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait() // how it ended, late tells
	if !late.Stop() {
		t.Fatalf("%v does not end on SIGTERM", p.cmd.Args)
	}
}

// PID is the program's process: setpriv becomes it.
func (p *Program) PID() int { return p.cmd.Process.Pid }

// Log is the end of what the program printed.
func (p *Program) Log() string { return p.log.String() }

// lines is the last of what a program printed. It may be used concurrently.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// kept is how much is remembered, in bytes.
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
