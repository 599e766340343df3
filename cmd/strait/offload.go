package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/offload"
)

func newOffload() *cobra.Command {
	var cluster clusterFlags
	var peering, output string
	c := &cobra.Command{
		Use:   "offload NAMESPACE... --to PEERING",
		Short: "Let pods of namespaces run in a remote cluster",
		Long: `Let pods of each NAMESPACE run in the cluster of PEERING: those that are scheduled to the
virtual node of strait borrow, as pods with the RuntimeClass strait-PEERING are. Others
keep running in this cluster.

The namespace gets the label strait.dev/offload. Without the label, no new pod of it runs
in the remote cluster; those that run there already stay.`,
		Example: `  strait offload shop --to b
  strait offload shop jobs --to b --context a`,
		Args: atLeastOne("the name of the namespace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(cmd, output); err != nil {
				return err
			}
			if peering == "" {
				return wrongUsage(cmd, "--to is missing: name the Peering of the cluster in which pods may run")
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			local, err := cluster.open(ctx)
			if err != nil {
				return err
			}
			offloaded, err := offload.Offload(ctx, local, peering, args)
			if err != nil {
				return err
			}
			if output != "table" {
				return printAs(cmd.OutOrStdout(), output, offloaded)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: pods of %s with the RuntimeClass %s run in the cluster of Peering %s.\n", local.Name, strings.Join(args, ", "), offloaded.RuntimeClass, peering)
			return err
		},
	}
	cluster.register(c)
	c.Flags().StringVar(&peering, "to", "", "Peering of the cluster in which pods may run (required)")
	outputFlag(c, &output)
	_ = c.RegisterFlagCompletionFunc("to", peerings) // fails only for an unknown flag
	c.ValidArgsFunction = namespaces
	return c
}
