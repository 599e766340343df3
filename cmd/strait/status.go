package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/operator"
)

type statusCommand struct {
	cluster   clusterFlags
	wait      time.Duration // 0: do not wait
	watch     bool
	forRemote bool
	output    string
}

func newStatus() *cobra.Command {
	f := statusCommand{}
	c := &cobra.Command{
		Use:   "status [PEERING...]",
		Short: "Show the state of each peering",
		Long: `Show the state of all peerings, or of those named: the stages from the object to
packets, what is missing and what to do about it; the links; and the addresses to which
the remote cluster's CIDRs are mapped. The exit code is 0 if all peerings are ready and
1 otherwise.

-o wide adds the bytes of IP packets that each link received and sent since its gateway
started, which the command reads in the pods of the gateways.

--wait waits until all are ready, for two minutes; --wait=10m waits longer.

--watch shows the state until it is interrupted: on a terminal the table, drawn again
every two seconds; elsewhere a line for each change.

--for-remote prints the Peering that the other cluster needs for this one, to commit to
Git or to apply there. It holds public data only.`,
		Example: `  strait status
  strait status b --wait=5m
  strait status --watch
  strait status -o wide
  strait status -o json
  strait status b --for-remote > clusters/b/peering-a.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.cluster.register(c)
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait until all peerings are ready, for at most this long")
	c.Flags().Lookup("wait").NoOptDefVal = "2m"
	c.Flags().BoolVarP(&f.watch, "watch", "w", false, "show the state, and what changes, until interrupted")
	c.Flags().BoolVar(&f.forRemote, "for-remote", false, "print the Peering for the other cluster")
	outputFlag(c, &f.output, "wide")
	return c
}

// errNotReady is the error of a status, which is printed already, with a peering that is not
// ready.
var errNotReady = errors.New("not all peerings are ready: do what the table says")

func (f *statusCommand) run(cmd *cobra.Command, names []string) error {
	if f.watch && (f.wait > 0 || f.forRemote) {
		return wrongUsage(cmd, "--watch goes neither with --wait nor with --for-remote: leave it out, or them")
	}
	if f.output == "wide" && (f.watch || f.forRemote) {
		return wrongUsage(cmd, "-o wide goes neither with --watch nor with --for-remote: leave it out, or them")
	}
	if f.forRemote && len(names) > 1 {
		return wrongUsage(cmd, "--for-remote prints one Peering: name one")
	}
	ctx := cmd.Context()
	c, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	if f.forRemote {
		return f.remote(ctx, cmd, c, names)
	}
	if f.watch {
		w := statusWatch{to: cmd.OutOrStdout(), output: f.output, terminal: terminalOf(cmd.OutOrStdout())}
		return operator.Watch(ctx, c, names, w.see)
	}
	var report *operator.Report
	if f.wait == 0 {
		report, err = operator.ReadReport(ctx, c, names)
	} else {
		report, err = operator.Await(ctx, c, names, waiting(cmd, f.wait))
	}
	if report == nil {
		return err
	}
	wide := f.output == "wide"
	if wide {
		err = errors.Join(err, report.ReadTraffic(ctx, c))
	}
	err = errors.Join(err, printReport(cmd, f.output, report, func(w io.Writer) error { return operator.Table(w, report, time.Now(), wide) }))
	if err == nil && !report.Ready {
		return errNotReady
	}
	return err
}

// remote prints the Peering for the other cluster.
func (f *statusCommand) remote(ctx context.Context, cmd *cobra.Command, c operator.Cluster, names []string) error {
	name := ""
	if len(names) > 0 {
		name = names[0]
	}
	patience := f.wait
	if patience == 0 {
		patience = time.Second // for keys and endpoints that exist already
	}
	peering, err := operator.ForRemote(ctx, c, name, waiting(cmd, patience))
	if err != nil {
		return err
	}
	if f.output == "json" {
		return printAs(cmd.OutOrStdout(), "json", peering)
	}
	fmt.Fprintf(cmd.OutOrStdout(), `# Apply this in the cluster to be joined with cluster %s. It holds public data only.
# With localPods, pods of cluster %[1]s can reach all pods there; to allow less, list CIDRs in localPrefixes.
`, peering.Spec.ClusterID)
	return printAs(cmd.OutOrStdout(), "yaml", peering)
}
