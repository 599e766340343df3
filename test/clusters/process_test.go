package clusters

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

// process is one of Strait's programs.
type process struct {
	cmd *exec.Cmd
	log *lines
}

// How processes are confined. Gateways are nobody with nothing; helpers are root with the
// one capability that changes networks. The controller needs no network of its own.
var (
	unprivileged = []string{"--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"}
	onlyNetAdmin = []string{"--bounding-set=-all,+net_admin", "--inh-caps=-all", "--no-new-privs"}
)

// start runs strait, in a namespace unless that is nil, until the test ends.
func start(t *testing.T, name string, n *netns.Namespace, confined []string, env []string, args ...string) *process {
	t.Helper()
	binary, err := straitBinary()
	must(t, err)
	p := &process{log: new(lines)}
	p.cmd = exec.Command("setpriv", append(append(confined, binary), args...)...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	begin := p.cmd.Start
	if n != nil {
		begin = func() error { return n.In(p.cmd.Start) }
	}
	must(t, begin())
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s logged:\n%s", name, p.log)
		}
	})
	return p
}

// kill ends the process at once, if it still runs.
func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		_ = p.cmd.Wait()
	}
}

// stop asks the process to end and waits until it has.
func (p *process) stop(t *testing.T) {
	t.Helper()
	must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatalf("%v does not end on SIGTERM", p.cmd.Args)
	}
}

// operator runs one of the operator's commands, which has to end with a status.
func operator(t *testing.T, status int, args ...string) string {
	t.Helper()
	out, is := operate(t, args...)
	if is != status {
		t.Fatalf("strait %s ends with %d, want %d:\n%s", strings.Join(args, " "), is, status, out)
	}
	return out
}

// operate runs one of the operator's commands and returns what it printed, and its status.
func operate(t *testing.T, args ...string) (string, int) {
	t.Helper()
	binary, err := straitBinary()
	must(t, err)
	cmd := exec.Command(binary, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, _ := cmd.Output() // the status tells
	if cmd.ProcessState == nil {
		t.Fatalf("strait %v did not run", args)
	}
	if errs.Len() > 0 {
		t.Logf("strait %s:\n%s", strings.Join(args, " "), &errs)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// lines is what a process printed. It may be used concurrently.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// statusOf is what /proc says of a process.
func statusOf(t *testing.T, p *process) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	must(t, err)
	return string(text)
}
