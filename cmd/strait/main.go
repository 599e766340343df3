// Command strait joins the pod networks of Kubernetes clusters.
package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// Exit codes, of every verb.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// run is a command line without the program's name, for tests.
func run(args []string) int { return execute(newRoot(), args) }

func execute(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	err := root.Execute()
	var wrong *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrong):
		complain(root.ErrOrStderr(), err)
		fmt.Fprintf(root.ErrOrStderr(), "Run %q for usage.\n", wrong.help)
		return exitUsage
	}
	complain(root.ErrOrStderr(), err)
	return exitFailed
}

// usageError is a mistake on the command line.
type usageError struct {
	err  error
	help string // the command that shows how it is done
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "strait",
		Short: "Join the pod networks of Kubernetes clusters, without privilege",
		Long: `Strait joins the pod networks of Kubernetes clusters, also when both use the
same pod CIDR, through a gateway that needs no privilege, no kernel module and
no TUN device.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return &usageError{fmt.Errorf("unknown verb %q", args[0]), c.CommandPath() + " --help"}
			}
			return c.Help()
		},
	}
	for _, group := range []struct {
		title string
		verbs []*cobra.Command
	}{
		{"Before and after:", []*cobra.Command{newPreflight(), newUninstall()}},
		{"Join clusters:", []*cobra.Command{newPeer(), newInvite(), newAccept(), newCIDR()}},
		{"See how they are doing:", []*cobra.Command{newStatus(), newVerify(), newTrace(), newCapture(), newResolve(), newGather(), newBench()}},
		{"What runs in a cluster:", []*cobra.Command{newController(), newGateway(), newNode()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, verb := range group.verbs {
			verb.GroupID = group.title
		}
		root.AddCommand(group.verbs...)
	}
	root.AddCommand(newDemo(), newVersion(), newCompletion(), newAgent())
	root.CompletionOptions.DisableDefaultCmd = true
	markUsage(root)
	complete(root)
	return root
}

// arguments takes exactly these, and says which is missing.
func arguments(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, given []string) error {
		switch {
		case len(given) < len(names):
			return fmt.Errorf("%s is missing", names[len(given)])
		case len(given) > len(names):
			return fmt.Errorf("%q is one argument too many", given[len(names)])
		}
		return nil
	}
}

// markUsage makes every mistake in flags and arguments a usageError.
func markUsage(c *cobra.Command) {
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return &usageError{err, c.CommandPath() + " --help"} })
	if args := c.Args; args != nil {
		c.Args = func(c *cobra.Command, given []string) error {
			if err := args(c, given); err != nil {
				return &usageError{err, c.CommandPath() + " --help"}
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		markUsage(sub)
	}
}
