package main

import (
	"errors"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/findings"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/preflight"
)

// preflightCommand is what `strait preflight` is told.
type preflightCommand struct {
	cluster, remote clusterFlags
	image           string
	noPods          bool
	output          string
}

func newPreflight() *cobra.Command {
	f := preflightCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "preflight",
		Short: "Look whether Strait can be installed, before it is",
		Long: `Look whether Strait can work in a cluster, and between two: versions, ranges of
addresses and how they would be seen, the network plugin, Pod Security; on each node
the kernel, ports, limits, MTU, clock and what is in the way; and UDP between nodes
and between the clusters.

What it finds has a code that stays, a remedy and a page. It ends with 1 if there is
an error, and with 0 otherwise.

It runs pods, in namespaces that it removes again; those that look at nodes have
NET_ADMIN and the node's network. With --no-pods it only asks the API servers, and
says what it did not look at.`,
		Example: `  strait preflight --context a
  strait preflight --context a --remote-context b
  strait preflight --no-pods -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	f.remote.register(c)
	c.Flags().StringVar(&f.image, "image", "", "image of the pods (default: that of the Strait that is installed, or "+install.Image+")")
	c.Flags().BoolVar(&f.noPods, "no-pods", false, "run no pods: only ask the API servers")
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	return c
}

// errFindings is the end of a command that found errors. They were printed.
var errFindings = errors.New("there are errors; what to do stands above")

func (f *preflightCommand) run(cmd *cobra.Command) error {
	if err := checkOutput(cmd, f.output, "table", "json"); err != nil {
		return err
	}
	local, err := f.cluster.open()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	o := preflight.Options{Local: local, NoPods: f.noPods, Image: f.image, Progress: waiting(cmd, 0).Progress}
	if f.remote.given() {
		f.remote.beside(f.cluster)
		remote, err := f.remote.open()
		if err != nil {
			return err
		}
		o.Remote = &remote
	}
	all, err := preflight.Run(ctx, o)
	return errors.Join(err, printFindings(cmd, f.output, all))
}

// printFindings prints what a command found, and is an error if there is one among it.
func printFindings(cmd *cobra.Command, form string, all []findings.Finding) error {
	var err error
	if form == "json" {
		if all == nil {
			all = []findings.Finding{}
		}
		err = printAs(cmd.OutOrStdout(), form, all)
	} else {
		err = findings.Table(cmd.OutOrStdout(), all)
	}
	if err == nil && findings.Worst(all) == findings.Error {
		return errFindings
	}
	return err
}
