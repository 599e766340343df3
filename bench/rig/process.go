//go:build linux

package rig

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is a program in a namespace and in a control group.
type process struct {
	cmd    *exec.Cmd
	log    string // file with its output
	exited chan struct{}
}

// join moves a shell into the groups named by $0, and replaces it with the program.
const join = `for group in $0; do echo 0 >"$group"; done; exec "$@"`

// start starts a program in a namespace; logs is the directory for its output. configure may
// change the command before it starts.
func (n *namespace) start(group *cgroup, logs string, env []string, configure func(*exec.Cmd) error, command ...string) (*process, error) {
	return start(n.role, n.In, group, logs, env, configure, command...)
}

// startGateway starts a program in a gateway's namespace, and adds it to the gateways' processes.
func (t *topology) startGateway(s *site, logs string, env []string, command ...string) error {
	p, err := s.gw.start(t.gateways, logs, env, nil, command...)
	if err == nil {
		t.processes = append(t.processes, p)
	}
	return err
}

// start starts a program, with a role in the name of its log, where in runs a function.
func start(role string, in func(func() error) error, group *cgroup, logs string, env []string, configure func(*exec.Cmd) error, command ...string) (*process, error) {
	shell := append([]string{"-c", join, strings.Join(group.processFiles(), " ")}, command...)
	p := &process{cmd: exec.Command("/bin/sh", shell...), exited: make(chan struct{})}
	p.log = filepath.Join(logs, role+"-"+filepath.Base(command[0])+".log")
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Env = append(os.Environ(), env...)
	// Ctrl-C goes to the rig only, which then stops everything in order.
	p.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if configure != nil {
		if err := configure(p.cmd); err != nil {
			return nil, err
		}
	}
	if err := in(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("in %s: %s: %w", role, command[0], err)
	}
	go func() {
		_ = p.cmd.Wait() // the reader of exited reads the log
		close(p.exited)
	}()
	return p, nil
}

// stop ends the process and all its children, with SIGKILL after two seconds.
func (p *process) stop() {
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		_ = unix.Kill(-p.cmd.Process.Pid, s) // fails when all have ended
		select {
		case <-p.exited:
		case <-time.After(2 * time.Second):
		}
	}
}

// running reports why the process has ended, if it has.
func (p *process) running() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s has ended (%v); its output:\n%s", p.cmd.Args[4], p.cmd.ProcessState, tail(p.log))
	default:
		return nil
	}
}

func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	const enough = 2000 // bytes
	return string(text[max(0, len(text)-enough):])
}

// pipe combines a child's standard output and input into one stream.
type pipe struct {
	io.Reader
	io.WriteCloser
}

func pipeTo(cmd *exec.Cmd) (*pipe, error) {
	cmd.Stdin, cmd.Stdout = nil, nil
	in, err := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	return &pipe{out, in}, errors.Join(err, err2)
}
