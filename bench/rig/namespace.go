//go:build linux

package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/node/genl"
)

// namePrefix is the prefix of the names of all objects of the rig:
// strait-bench-PID-SUBJECT-ROLE. Two runs never conflict, and a later run can identify the
// leftovers of one that was killed.
const namePrefix = "strait-bench-"

// namespace is one network namespace of the topology.
type namespace struct {
	*netns.Namespace
	role string // podA, nodeA, ...
}

func newNamespace(subject, role string) (*namespace, error) {
	n, err := netns.Add(fmt.Sprintf("%s%d-%s-%s", namePrefix, os.Getpid(), subject, role))
	return &namespace{n, role}, err
}

// genl runs f with a generic netlink socket of n.
func (n *namespace) genl(f func(*genl.Conn) error) error {
	var c *genl.Conn
	if err := n.In(func() (err error) {
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
	if out, err := n.Output(stdin, exec.CommandContext(ctx, command[0], command[1:]...)); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
