package main

import (
	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/offload"
)

func newBorrow() *cobra.Command {
	var cluster clusterFlags
	var size capacity
	var output string
	var dry bool
	o := offload.BorrowOptions{Image: install.Image, Wait: offloadWait}
	c := &cobra.Command{
		Use:   "borrow --from PEERING",
		Short: "Add a virtual node whose pods run in a remote cluster",
		Long: `Add a virtual node to this cluster. Its pods run in the cluster of PEERING, if their
namespace is offloaded there (strait offload) and lent there (strait lend).

The command creates the borrower, which may impersonate this one node and nothing else,
and the RuntimeClass strait-PEERING. A pod with this class is scheduled to the node;
without the class, or a node selector and toleration of its own, no pod is.`,
		Example: `  strait borrow --from b
  strait borrow --from b --cpu 4 --memory 8Gi --node-name b --context a`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := checkPlan(cmd, output, dry); err != nil {
				return err
			}
			if o.Peering == "" {
				return wrongUsage(cmd, "--from is missing: name the Peering of the cluster in which pods are to run")
			}
			if o.Resources, err = size.resources(cmd); err != nil {
				return err
			}
			ctx := cmd.Context()
			local, err := cluster.open(ctx)
			if err != nil {
				return err
			}
			if dry {
				return printPlan(cmd)(offload.PlanBorrow(ctx, local, o))
			}
			borrowed, err := offload.Borrow(ctx, local, o)
			if err != nil {
				return err
			}
			return printResult(cmd, output, borrowed, "%s: node %s borrows from Peering %s.\nIt is ready when the remote cluster lends: kubectl get node %s\n", local.Name, borrowed.Node, o.Peering, borrowed.Node)
		},
	}
	cluster.register(c)
	c.Flags().StringVar(&o.Peering, "from", "", "Peering of the cluster in which pods are to run (required)")
	c.Flags().StringVar(&o.NodeName, "node-name", "", "name of the virtual node (default: strait-PEERING)")
	size.register(c, "of the node at most", "as before, else what is lent")
	agentFlags(c, &o.Image, &o.Wait)
	planFlag(c, &dry)
	outputFlag(c, &output)
	_ = c.RegisterFlagCompletionFunc("from", peerings) // fails only for an unknown flag
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}
