package main

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/columns"
	"strait.dev/strait/operate/operator"
)

func newCIDR() *cobra.Command {
	return group(&cobra.Command{
		Use:     "cidr",
		Short:   "Plan CIDRs before clusters are joined",
		Long:    `Plan how the CIDRs of a remote cluster are mapped, before the clusters are joined.`,
		Example: `  strait cidr plan --remote 10.0.0.0/16`,
	}, newCIDRPlan())
}

type planCommand struct {
	cluster, remote clusterFlags
	prefixes        []string
	keep            bool
	output          string
}

func newCIDRPlan() *cobra.Command {
	f := planCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "plan --remote CIDR | --remote-context B",
		Short: "Show to which CIDRs those of a remote cluster would be mapped",
		Long: `Show to which CIDRs this cluster would map those of a remote cluster, and why, as its
controller would decide: a CIDR that the Peering lists and that overlaps nothing in this
cluster stays as it is; any other is mapped to a CIDR of the same length from the remap
pools. Host bits are kept. Without a Peering, none counts as listed, or all with
--keep-addresses, as strait peer and strait accept list them.

The CIDRs are those of --remote and, with access to the remote cluster
(--remote-context), all that it announces to others. Nothing is written.`,
		Example: `  strait cidr plan --remote 10.0.0.0/16 --remote 10.70.0.0/16
  strait cidr plan --context a --remote-context b -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	f.remote.register(c)
	c.Flags().StringSliceVar(&f.prefixes, "remote", nil, "`CIDR` of the remote cluster; may be repeated")
	c.Flags().BoolVar(&f.keep, "keep-addresses", false, "without a Peering: as if it listed the CIDRs, so that they keep their addresses where they are free")
	outputFlag(c, &f.output)
	return c
}

func (f *planCommand) run(cmd *cobra.Command) error {
	prefixes, err := parsePrefixes(cmd, "--remote", f.prefixes)
	if err != nil {
		return err
	}
	if len(prefixes) == 0 && !f.remote.given() {
		return wrongUsage(cmd, "no CIDR is given: give CIDRs with --remote, or access to the remote cluster with --remote-context")
	}
	for _, p := range prefixes {
		if err := config.CheckPrefix(p); err != nil {
			return wrongUsage(cmd, "--remote: %w", err)
		}
	}
	ctx := cmd.Context()
	c, remote, err := openBoth(ctx, &f.cluster, &f.remote)
	if err != nil {
		return err
	}
	plan, err := operator.PlanOf(ctx, c, remote, prefixes, f.keep)
	if err != nil {
		return err
	}
	var table columns.Table
	table.Row("REMOTE-CIDR", "SEEN-AS", "WHY")
	for _, v := range plan.Views {
		table.Row(v.CIDR, cmp.Or(v.SeenAs, "nowhere"), v.Reason+refusals(v.Refused))
	}
	return printReport(cmd, f.output, plan, func(w io.Writer) error {
		_, err := table.WriteTo(w)
		return err
	})
}

// refusals formats the nodes that refuse a mapping; there may be thousands.
func refusals(nodes []string) string {
	switch len(nodes) {
	case 0:
		return ""
	case 1:
		return "; refused by a node: " + nodes[0]
	}
	return fmt.Sprintf("; refused by %d nodes: %s", len(nodes), nodes[0])
}
