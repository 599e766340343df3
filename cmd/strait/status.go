package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/operator"
)

// statusCommand is what `strait status` is told.
type statusCommand struct {
	cluster   clusterFlags
	wait      time.Duration // 0: do not
	forRemote bool
	output    string
}

func newStatus() *cobra.Command {
	f := statusCommand{}
	c := &cobra.Command{
		Use:   "status [PEERING...]",
		Short: "Show how far each peering has come",
		Long: `Show for each peering, or for those named, which of the steps from an object to
packets are reached, what is missing and what to do about it; its links, and where
the ranges of the remote cluster are seen here. It ends with 0 if all are ready, and
with 1 if not.

With --wait it waits until all are ready: --wait for two minutes, --wait=10m for
another time.

With --for-remote it prints the Peering that the other cluster needs for this one,
to be put into Git or applied there. That holds public data only.`,
		Example: `  strait status
  strait status b --wait=5m
  strait status -o json
  strait status b --for-remote > clusters/b/peering-a.yaml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.cluster.register(c)
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait until all are ready, this long at most")
	c.Flags().Lookup("wait").NoOptDefVal = "2m"
	c.Flags().BoolVar(&f.forRemote, "for-remote", false, "print the Peering that the other cluster needs")
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table, json or yaml")
	return c
}

// errNotReady is the end of a status that is not as it should be. It was printed.
var errNotReady = errors.New("not all peerings are ready; what is missing stands above")

func (f *statusCommand) run(cmd *cobra.Command, names []string) error {
	if err := checkOutput(cmd, f.output, "table", "json", "yaml"); err != nil {
		return err
	}
	if cmd.Flags().Changed("wait") {
		if err := checkWait(cmd, f.wait); err != nil {
			return err
		}
		for _, name := range names { // the value of a flag that may go without one
			if _, err := time.ParseDuration(name); err == nil {
				return wrongUsage(cmd, "%s is taken for a Peering; write --wait=%s", name, name)
			}
		}
	}
	if f.forRemote && len(names) > 1 {
		return wrongUsage(cmd, "--for-remote prints one Peering; name one")
	}
	c, err := f.cluster.open()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	if f.forRemote {
		return f.remote(ctx, cmd, c, names)
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
	if f.output == "table" {
		err = errors.Join(err, operator.Table(cmd.OutOrStdout(), report, time.Now()))
	} else {
		err = errors.Join(err, printAs(cmd.OutOrStdout(), f.output, report))
	}
	if err == nil && !report.Ready {
		return errNotReady
	}
	return err
}

// remote prints the object that the other cluster needs.
func (f *statusCommand) remote(ctx context.Context, cmd *cobra.Command, c operator.Cluster, names []string) error {
	name := ""
	if len(names) > 0 {
		name = names[0]
	}
	patience := f.wait
	if patience == 0 {
		patience = time.Second // for what is there already
	}
	peering, err := operator.ForRemote(ctx, c, name, waiting(cmd, patience))
	if err != nil {
		return err
	}
	if f.output == "json" {
		return printAs(cmd.OutOrStdout(), "json", peering)
	}
	fmt.Fprintf(cmd.OutOrStdout(), `# For the cluster that is to be joined with cluster %s. It is public data.
# localPods lets pods of cluster %[1]s reach all pods there; for less, name ranges in localPrefixes.
`, peering.Spec.ClusterID)
	return printAs(cmd.OutOrStdout(), "yaml", peering)
}
