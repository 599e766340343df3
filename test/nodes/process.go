package nodes

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"strait.dev/strait/test/netns"
)

// process is a program of the lab. It ends with this process, even if that is killed.
type process struct {
	name    string
	log     string // file with its output
	network *netns.Namespace
	cgroups cgroups
	fresh   uintptr // its new namespaces, as flags of clone(2)
	command []string

	cmd    *exec.Cmd
	exited chan struct{}
}

// join enters cgroups and execs the program.
const join = `for g in $1; do echo 0 >"$g/cgroup.procs" || exit; done; shift; exec "$@"`

func (p *process) start() error {
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd = exec.Command("sh", append([]string{"-c", join, p.name, strings.Join(p.cgroups, " ")}, p.command...)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: p.fresh}
	p.exited = make(chan struct{})
	started := make(chan error)
	go func() {
		// For the kernel, the parent is the thread inside the namespace. It must live as
		// long as the program.
		err := p.network.In(func() error {
			err := p.cmd.Start()
			if err == nil {
				started <- nil
				_ = p.cmd.Wait() // ended reports how it ended
				close(p.exited)
			}
			return err
		})
		if err != nil {
			started <- err
		}
	}()
	return <-started
}

// kill kills the process and waits for its end. If it is the first of a node, all others of
// the node end too.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended
	<-p.exited
}

// ended returns the error of a process that should still be running, or nil.
func (p *process) ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended (%v); end of its output:\n%s", p.name, p.cmd.ProcessState, p.tail())
	default:
		return nil
	}
}

// tail returns the end of the process's output.
func (p *process) tail() string {
	const lines = 20
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	all := strings.SplitAfter(string(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}
