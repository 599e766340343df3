package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/preflight"
)

type preflightCommand struct {
	cluster, remote clusterFlags
	image           string
	withoutNodes    bool
	noPods, report  bool
	output          string
}

func newPreflight() *cobra.Command {
	f := preflightCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "preflight",
		Short: "Check whether a cluster can run Strait",
		Long: `Check whether Strait can run in a cluster, and between two clusters, before it is
installed: versions, CIDRs and their mapping, the network plugin, Pod Security, CoreDNS;
on each node the kernel, ports, limits, MTU, clock and conflicting settings; and UDP
between nodes and between the clusters.

Each finding has a stable code, a remedy and a page of documentation. The exit code is 1
if there is an error and 0 otherwise.

The command runs pods in temporary namespaces. The pods that inspect nodes have
NET_ADMIN and use the node's network. With --no-pods the command only reads from the API
servers, and lists the checks that it skipped.

With --report the command prints what the cluster is made of and the worst result of each
check, without names and addresses, for a report to the compatibility matrix.`,
		Example: `  strait preflight --context a
  strait preflight --context a --remote-context b
  strait preflight --no-pods -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	f.remote.register(c)
	c.Flags().StringVar(&f.image, "image", "", "image of the pods (default: the image of the installed Strait, or "+install.Image+")")
	c.Flags().BoolVar(&f.withoutNodes, "without-nodes", false, "check for an installation without node helpers (chart value node.enabled=false)")
	c.Flags().BoolVar(&f.noPods, "no-pods", false, "run no pods: only read from the API servers")
	c.Flags().BoolVar(&f.report, "report", false, "print a report for the compatibility matrix instead of the findings: YAML, or JSON with -o json")
	c.MarkFlagsMutuallyExclusive("report", "remote-context")
	outputFlag(c, &f.output)
	return c
}

// errFindings is the error of a command whose findings, which are printed already, have an
// error among them.
var errFindings = errors.New("there are errors: do what the table says")

func (f *preflightCommand) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	local, remote, err := chooseBoth(&f.cluster, &f.remote)
	if err != nil {
		return err
	}
	o := preflight.Options{Local: local, WithoutNodes: f.withoutNodes, NoPods: f.noPods, Image: f.image, Progress: waiting(cmd, 0).Progress, Remote: remote}
	all, err := preflight.Run(ctx, o)
	if f.report && err == nil {
		return f.printReport(ctx, cmd, local, all)
	}
	return errors.Join(err, printFindings(cmd, f.output, all))
}

// printReport prints the environment of a cluster with its findings.
func (f *preflightCommand) printReport(ctx context.Context, cmd *cobra.Command, c operator.Cluster, all []findings.Finding) error {
	e, err := preflight.Describe(ctx, c, thisBuild().Version, all)
	if err != nil {
		return err
	}
	format := f.output
	if format == "table" {
		format = "yaml"
	}
	return printAs(cmd.OutOrStdout(), format, e)
}

// unreachable returns the finding that the API server of a cluster does not answer, nil if it
// does.
func unreachable(ctx context.Context, c operator.Cluster) []findings.Finding {
	err := c.Reach(ctx)
	if err == nil {
		return nil
	}
	return []findings.Finding{findings.New("STRAIT-C001", findings.Error, c.Name, "%v", err)}
}

// printFindings prints findings. It returns errFindings if there is an error among them.
func printFindings(cmd *cobra.Command, format string, all []findings.Finding) error {
	all = append([]findings.Finding{}, all...) // not null in JSON
	err := printReport(cmd, format, all, func(w io.Writer) error { return findings.Table(w, all) })
	if err == nil && findings.Worst(all) == findings.Error {
		return errFindings
	}
	return err
}
