package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/offload"
)

type unlendCommand struct {
	cluster clusterFlags
	options offload.UnlendOptions
	all     bool
	dryRun  bool
	consent consent
	output  string
}

func newUnlend() *cobra.Command {
	f := unlendCommand{}
	c := &cobra.Command{
		Use:   "unlend {NAMESPACE... | --all} --from PEERING",
		Short: "End the pods of a remote cluster in namespaces of this one",
		Long: `Take back each NAMESPACE that is lent to the cluster of PEERING, or all of them. Pods of the
remote cluster end there, with their grace periods, and have failed in the remote cluster.
What the lender has in the namespace is deleted, with its rights; so is the namespace, if
strait lend made it. With the last namespace, the lender is removed.

The command asks before it ends pods. It works even when the Peering is deleted, and the
lender is stopped.`,
		Example: `  strait unlend shop --from a
  strait unlend --all --from a --context b
  strait unlend shop --from a --dry-run`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.cluster.register(c)
	c.Flags().StringVar(&f.options.Peering, "from", "", "Peering of the cluster whose pods end (required)")
	c.Flags().BoolVar(&f.all, "all", false, "take back all namespaces, and remove the lender")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would end and exit")
	f.consent.register(c, "end pods without asking")
	c.Flags().DurationVar(&f.options.Wait, "wait", offloadWait, "how long to wait for pods to end")
	outputFlag(c, &f.output)
	_ = c.RegisterFlagCompletionFunc("from", peerings) // fails only for an unknown flag
	c.ValidArgsFunction = namespaces
	return c
}

func (f *unlendCommand) run(cmd *cobra.Command, args []string) error {
	switch {
	case f.options.Peering == "":
		return wrongUsage(cmd, "--from is missing: name the Peering of the cluster whose pods end")
	case f.all == (len(args) > 0):
		return wrongUsage(cmd, "name the namespaces to take back, or give --all")
	}
	if err := f.consent.check(cmd, !f.dryRun); err != nil {
		return err
	}
	ctx := cmd.Context()
	local, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	f.options.Namespaces = args
	plan, err := offload.PlanUnlend(ctx, local, f.options)
	if err != nil {
		return err
	}
	if f.dryRun {
		return printResult(cmd, f.output, plan, "%s", describeUnlending(plan, "would end"))
	}
	what := "the lender"
	if len(plan.Namespaces) > 0 {
		what = strings.Join(plan.Namespaces, ", ")
	}
	question := fmt.Sprintf("Take %s back from Peering %s in %s? %d pods of the remote cluster end.", what, plan.Peering, local.Name, plan.Pods)
	if len(plan.Deleted) > 0 {
		question += " Deleted with all that is in them: namespaces " + strings.Join(plan.Deleted, ", ") + "."
	}
	if err := f.consent.ask(cmd, question); err != nil {
		return err
	}
	progress := newProgress(cmd)
	f.options.Say = progress.Say
	done, err := offload.Unlend(ctx, local, f.options)
	progress.Done()
	if err != nil {
		return err
	}
	return printResult(cmd, f.output, done, "%s", describeUnlending(done, "ended"))
}

func describeUnlending(u offload.Unlending, outcome string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d pods of Peering %s %s.\n", u.Cluster, u.Pods, u.Peering, outcome)
	if len(u.Namespaces) > 0 {
		fmt.Fprintf(&b, "not lent any more: %s\n", strings.Join(u.Namespaces, ", "))
	}
	if len(u.Deleted) > 0 {
		fmt.Fprintf(&b, "deleted: namespaces %s\n", strings.Join(u.Deleted, ", "))
	}
	if u.Lender {
		b.WriteString("deleted: the lender, with its address and its rights\n")
	}
	return b.String()
}
