package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/operator"
)

type unpeerCommand struct {
	local, remote clusterFlags
	options       operator.UnpeerOptions
	dry           dryRun
	consent       consent
	wait          time.Duration
	output        string
}

func newUnpeer() *cobra.Command {
	f := unpeerCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "unpeer PEERING [--remote-context B]",
		Short: "Separate two joined clusters",
		Long: `Delete a Peering, and wait until its gateways, their keys and its routes are removed.
Connections between the clusters end at once, so the command asks before it deletes.

With access to the other cluster (--remote-context), the Peering there is deleted too.
Without access, delete it there with another strait unpeer: until then it stays there,
and is not ready.`,
		Example: `  strait unpeer b --context a --remote-context b
  strait unpeer b --context a
  strait unpeer b --context a --dry-run`,
		Args: arguments("the name of the Peering"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.local.register(c)
	f.remote.register(c)
	f.dry.register(c)
	f.consent.register(c, "delete without asking")
	c.Flags().StringVar(&f.options.GatewayNamespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways, in both clusters")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait for the removal, in each cluster")
	outputFlag(c, &f.output)
	return c
}

// separated is the result of `strait unpeer`.
type separated struct {
	Deleted []deletedPeering `json:"deleted"`
}

type deletedPeering struct {
	Cluster string `json:"cluster"` // as in "context a"
	Name    string `json:"name"`
}

func (f *unpeerCommand) run(cmd *cobra.Command, name string) error {
	if err := operator.CheckName(name); err != nil {
		return wrongUsage(cmd, "%w", err)
	}
	if err := f.consent.check(cmd, !f.dry.on); err != nil {
		return err
	}
	ctx := cmd.Context()
	local, remote, err := openBoth(ctx, &f.local, &f.remote)
	if err != nil {
		return err
	}
	also := ""
	if remote != nil {
		also = " and its counterpart in " + remote.Name
	}
	if err := f.consent.ask(cmd, fmt.Sprintf("Delete Peering %s in %s%s? Connections between the clusters end at once.", name, local.Name, also)); err != nil {
		return err
	}
	result := separated{Deleted: []deletedPeering{}}
	for _, c := range []*operator.Cluster{&local, remote} {
		if c != nil {
			c.Changed = func(change operator.Change) {
				result.Deleted = append(result.Deleted, deletedPeering{change.Cluster, change.Peering.Name})
			}
		}
	}
	f.dry.apply(&local, remote)
	f.options.Name, f.options.Waiting = name, f.dry.waiting(cmd, f.wait)
	if err = operator.Unpeer(ctx, local, remote, f.options); f.dry.on {
		return f.dry.print(cmd, f.output, err)
	}
	if err != nil {
		return resumable(err)
	}
	var b strings.Builder
	for _, one := range result.Deleted {
		fmt.Fprintf(&b, "%s: Peering %s is deleted, with its gateways and their keys.\n", one.Cluster, one.Name)
	}
	if remote == nil {
		b.WriteString("The other cluster keeps its Peering; delete it there with strait unpeer.\n")
	}
	return printResult(cmd, f.output, result, "%s", b.String())
}
