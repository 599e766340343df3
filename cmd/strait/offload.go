package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/offload"
)

func newOffload() *cobra.Command {
	var cluster clusterFlags
	var peering, output string
	var wait time.Duration
	var dry bool
	c := &cobra.Command{
		Use:   "offload NAMESPACE... --to PEERING",
		Short: "Let pods of namespaces run in a remote cluster",
		Long: `Let pods of each NAMESPACE run in the cluster of PEERING: those that are scheduled to the
virtual node of strait borrow, as pods with the RuntimeClass strait-PEERING are. Others
keep running in this cluster.

The namespace gets the label strait.dev/offload. Without the label, no new pod of it runs
in the remote cluster; those that run there already stay.

Pods may be created before the remote cluster lends the namespace: they are Pending until
then. With --wait, the command returns when the virtual node is ready.`,
		Example: `  strait offload shop --to b --wait
  strait offload shop jobs --to b --context a`,
		Args: atLeastOne("the name of the namespace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkPlan(cmd, output, dry); err != nil {
				return err
			}
			if peering == "" {
				return wrongUsage(cmd, "--to is missing: name the Peering of the cluster in which pods may run")
			}
			ctx := cmd.Context()
			local, err := cluster.open(ctx)
			if err != nil {
				return err
			}
			if dry {
				return printPlan(cmd)(offload.PlanOffload(ctx, local, peering, args))
			}
			offloaded, err := offload.Offload(ctx, local, peering, args)
			if err == nil && wait > 0 {
				err = resumable(offload.AwaitNode(ctx, local, offloaded, waiting(cmd, wait)))
			}
			if err != nil {
				return err
			}
			return printResult(cmd, output, offloaded, "%s: pods of %s with the RuntimeClass %s run in the cluster of Peering %s.\n", local.Name, strings.Join(args, ", "), offloaded.RuntimeClass, peering)
		},
	}
	cluster.register(c)
	c.Flags().StringVar(&peering, "to", "", "Peering of the cluster in which pods may run (required)")
	c.Flags().DurationVar(&wait, "wait", 0, "wait until the virtual node is ready, for at most this long")
	c.Flags().Lookup("wait").NoOptDefVal = "2m"
	planFlag(c, &dry)
	outputFlag(c, &output)
	_ = c.RegisterFlagCompletionFunc("to", peerings) // fails only for an unknown flag
	c.ValidArgsFunction = namespaces
	return c
}
