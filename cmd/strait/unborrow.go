package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/offload"
)

type unborrowCommand struct {
	cluster clusterFlags
	options offload.UnborrowOptions
	dryRun  bool
	consent consent
	output  string
}

func newUnborrow() *cobra.Command {
	f := unborrowCommand{}
	c := &cobra.Command{
		Use:   "unborrow --from PEERING",
		Short: "Drain and remove a virtual node",
		Long: `Remove the virtual node whose pods run in the cluster of PEERING. No new pod is scheduled to
it. Its pods are evicted, as PodDisruptionBudgets permit, and end in the remote cluster.
Then the node, the borrower with its rights, the RuntimeClass and the labels of offloaded
namespaces are deleted.

The command asks before it evicts pods. While the remote cluster does not answer, pods
cannot end; --force removes the node without them. The remote cluster ends them with strait
unlend, or when this cluster borrows again.`,
		Example: `  strait unborrow --from b
  strait unborrow --from b --context a --wait 10m --yes
  strait unborrow --from b --dry-run`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	c.Flags().StringVar(&f.options.Peering, "from", "", "Peering of the cluster in which the pods of the node run (required)")
	c.Flags().BoolVar(&f.options.Force, "force", false, "remove the node even while its pods have not ended")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be removed and exit")
	f.consent.register(c, "evict pods without asking")
	c.Flags().DurationVar(&f.options.Wait, "wait", offloadWait, "how long to wait for pods to end")
	outputFlag(c, &f.output)
	_ = c.RegisterFlagCompletionFunc("from", peerings) // fails only for an unknown flag
	c.ValidArgsFunction = cobra.NoFileCompletions
	return c
}

func (f *unborrowCommand) run(cmd *cobra.Command) error {
	if f.options.Peering == "" {
		return wrongUsage(cmd, "--from is missing: name the Peering of the cluster in which the pods of the node run")
	}
	if err := f.consent.check(cmd, !f.dryRun); err != nil {
		return err
	}
	ctx := cmd.Context()
	local, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	plan, err := offload.PlanUnborrow(ctx, local, f.options)
	if err != nil {
		return err
	}
	if f.dryRun {
		return printResult(cmd, f.output, plan, "%s", describeUnborrowing(plan, "would be removed"))
	}
	question := fmt.Sprintf("Remove node %s from %s? %d pods are evicted, and end in the remote cluster.", plan.Node, local.Name, plan.Pods)
	if f.options.Force {
		question = fmt.Sprintf("Remove node %s from %s by force? %d pods are removed with it, and may run on in the remote cluster.", plan.Node, local.Name, plan.Pods)
	}
	if err := f.consent.ask(cmd, question); err != nil {
		return err
	}
	progress := newProgress(cmd)
	f.options.Say = progress.Say
	done, err := offload.Unborrow(ctx, local, f.options)
	progress.Done()
	if err != nil {
		return err
	}
	return printResult(cmd, f.output, done, "%s", describeUnborrowing(done, "removed"))
}

func describeUnborrowing(u offload.Unborrowing, outcome string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: node %s %s, with %d pods, the borrower and its rights.\n", u.Cluster, u.Node, outcome, u.Pods)
	if len(u.Namespaces) > 0 {
		fmt.Fprintf(&b, "not offloaded any more: %s\n", strings.Join(u.Namespaces, ", "))
	}
	return b.String()
}
