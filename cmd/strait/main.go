// Command strait joins the pod networks of Kubernetes clusters.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // as a shell reports SIGINT
)

// execute runs a command line without the program's name. SIGINT and SIGTERM end the context of
// its command.
func execute(root *cobra.Command, args []string) int {
	root.SetArgs(args)
	root.SetOut(escaping(root.OutOrStdout()))
	root.SetErr(escaping(root.ErrOrStderr()))
	signalled, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(context.Background()) // without the cause of the other, which errors would repeat
	context.AfterFunc(signalled, cancel)
	err := root.ExecuteContext(ctx)
	var wrong *usageError
	switch {
	case err == nil:
		return exitOK
	case signalled.Err() != nil:
		printError(root.ErrOrStderr(), asInterrupted(err))
		return exitInterrupted
	case errors.As(err, &wrong):
		printError(root.ErrOrStderr(), fmt.Errorf("%w\nrun %q for usage", err, wrong.help))
		return exitUsage
	}
	printError(root.ErrOrStderr(), err)
	return exitFailed
}

// asInterrupted returns the error of a command that a signal has ended, without the lines
// that say no more than that.
func asInterrupted(err error) error {
	var rest []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasSuffix(line, context.Canceled.Error()) {
			rest = append(rest, line)
		}
	}
	text := strings.Join(rest, "\n")
	switch {
	case text == "":
		return errors.New("interrupted")
	case strings.HasPrefix(text, "interrupted"):
		return errors.New(text)
	}
	return errors.New("interrupted: " + text)
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "strait",
		Short: "Join the pod networks of Kubernetes clusters, without privilege",
		Long: `Strait joins the pod networks of Kubernetes clusters. Each cluster runs gateways that
need no privilege, no kernel module and no TUN device. The clusters may use the same
pod CIDR.

Exit codes: 0 success, 1 failure, 2 usage error, 130 interrupted.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionLine(),
		Args:          cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrongUsage(c, "%w", unknownCommand(c, args[0]))
			}
			return c.Help()
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(examplesFirst(root.UsageTemplate()))
	for _, group := range []struct {
		title    string
		commands []*cobra.Command
	}{
		{"Try it, without a cluster:", []*cobra.Command{newDemo()}},
		{"Install and uninstall:", []*cobra.Command{newPreflight(), newUninstall()}},
		{"Join clusters:", []*cobra.Command{newPeer(), newInvite(), newAccept(), newUnpeer(), newRotateKeys(), newCIDR()}},
		{"Share Services:", []*cobra.Command{newExport(), newUnexport(), newServices(), newDNS()}},
		{"Run pods in another cluster:", []*cobra.Command{newLend(), newUnlend(), newBorrow(), newUnborrow(), newOffload()}},
		{"Observe and diagnose:", []*cobra.Command{newStatus(), newDiagnose(), newVerify(), newTrace(), newCapture(), newResolve(), newGather(), newBench()}},
		{"Run in a cluster:", []*cobra.Command{newController(), newGateway(), newNode(), newBorrower(), newLender()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title})
		for _, command := range group.commands {
			command.GroupID = group.title
		}
		root.AddCommand(group.commands...)
	}
	root.AddCommand(newVersion(), newCompletion(), newAgent())
	root.SetHelpCommand(newHelp())
	root.CompletionOptions.DisableDefaultCmd = true
	markUsage(root)
	complete(root)
	return root
}

// examplesFirst moves the examples of a usage template before the usage line.
func examplesFirst(template string) string {
	const examples = "{{if .HasExample}}\n\nExamples:\n{{.Example}}{{end}}"
	return "{{if .HasExample}}Examples:\n{{.Example}}\n\n{{end}}" + strings.Replace(template, examples, "", 1)
}

// endAtSecondSignal lets a signal end the process at once after one has ended the command's
// context.
func endAtSecondSignal(cmd *cobra.Command) {
	context.AfterFunc(cmd.Context(), func() { signal.Reset(os.Interrupt, syscall.SIGTERM) })
}
