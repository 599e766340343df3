package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/operator"
)

func newCIDR() *cobra.Command {
	c := &cobra.Command{
		Use:     "cidr",
		Short:   "Plan ranges of addresses",
		Long:    `Plan ranges of addresses, before clusters are joined.`,
		Example: `  strait cidr plan --remote 10.0.0.0/16`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return wrongUsage(cmd, "say what to do: strait cidr plan") },
	}
	c.AddCommand(newCIDRPlan())
	return c
}

// planCommand is what `strait cidr plan` is told.
type planCommand struct {
	cluster, remote clusterFlags
	ranges          []string
	output          string
}

func newCIDRPlan() *cobra.Command {
	f := planCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "plan --remote CIDR | --remote-context B",
		Short: "Show where ranges of another cluster would be seen here, and why",
		Long: `Show under which ranges this cluster would see those of another one, and why, as
its controller would decide: a range that is free here is seen as it is, another
under a range of the same length from the remap pools. Host bits are kept.

The ranges are those given with --remote, and all that the remote cluster shows to
others if there is access to it. Nothing is written.`,
		Example: `  strait cidr plan --remote 10.0.0.0/16 --remote 10.70.0.0/16
  strait cidr plan --context a --remote-context b -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	f.remote.register(c)
	c.Flags().StringSliceVar(&f.ranges, "remote", nil, "a range of the other cluster; may be repeated")
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	return c
}

func (f *planCommand) run(cmd *cobra.Command) error {
	if err := checkOutput(cmd, f.output, "table", "json"); err != nil {
		return err
	}
	ranges, err := parseRanges(cmd, "--remote", f.ranges)
	if err != nil {
		return err
	}
	if len(ranges) == 0 && !f.remote.given() {
		return wrongUsage(cmd, "there is nothing to plan; give ranges with --remote, or access to the other cluster with --remote-context")
	}
	c, err := f.cluster.open()
	if err != nil {
		return err
	}
	var remote *operator.Cluster
	if f.remote.given() {
		f.remote.beside(f.cluster)
		other, err := f.remote.open()
		if err != nil {
			return fmt.Errorf("remote cluster: %w", err)
		}
		remote = &other
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	plan, err := operator.PlanOf(ctx, c, remote, ranges)
	if err != nil {
		return err
	}
	if f.output == "json" {
		return printAs(cmd.OutOrStdout(), "json", plan)
	}
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REMOTE-CIDR\tSEEN-AS\tWHY")
	for _, v := range plan.Views {
		seenAs := string(v.SeenAs)
		if seenAs == "" {
			seenAs = "nowhere"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", v.CIDR, seenAs, v.Reason)
	}
	return table.Flush()
}
