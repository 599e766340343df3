package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a program that runs until it is killed, or until this process ends.
type process struct {
	cmd    *exec.Cmd
	log    string // file with its output
	exited chan struct{}
}

// run starts a program with additional environment variables. Its output is appended to the
// file log.
func run(log string, environment []string, command ...string) (*process, error) {
	file, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &process{cmd: exec.Command(command[0], command[1:]...), log: log, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = file, file
	p.cmd.Env = append(os.Environ(), environment...)
	// It ends with this process, even if that is killed; Ctrl-C goes to this process only.
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	started := make(chan error)
	go func() {
		// For the kernel, the parent is this thread. It stays locked, so that it ends only
		// with the goroutine, after the program.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // ended reports how it ended
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// kill kills the process and waits for its end. It may be called again, and a paused
// process need not be resumed.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.exited
}

// pause suspends the process, and returns when all its threads have stopped.
func (p *process) pause() error {
	if err := p.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		return err
	}
	var status unix.Siginfo
	return unix.Waitid(unix.P_PID, p.cmd.Process.Pid, &status, unix.WSTOPPED|unix.WNOWAIT, nil)
}

// resume resumes a paused process.
func (p *process) resume() error {
	return p.cmd.Process.Signal(unix.SIGCONT)
}

// ended returns the error of a process that should still be running, or nil.
func (p *process) ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended (%v); end of its output:\n%s", filepath.Base(p.cmd.Path), p.cmd.ProcessState, p.tail())
	default:
		return nil
	}
}

// tail returns the end of the process's output.
func (p *process) tail() string {
	const lines = 30
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
