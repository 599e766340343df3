package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/operator"
)

func newResolve() *cobra.Command {
	var cluster clusterFlags
	var output, of string
	c := &cobra.Command{
		Use:   "resolve ADDRESS",
		Short: "Explain an address of this cluster",
		Long: `Explain an address as this cluster uses it: a pod of a remote cluster, with its address
in that cluster; the pods of a node; the internal or external address of a node or
gateway; a mapped host; or the CIDR that contains it. The exit code is 1 if Strait does
not use the address in this cluster.

With --of, translate in the other direction: ADDRESS is a pod's address in the remote
cluster of that Peering, and the result is the address to which this cluster maps it.
-o address prints that address alone.`,
		Example: `  strait resolve 10.71.2.9
  strait resolve 10.71.2.9 --context a -o json
  strait resolve 10.0.2.9 --of b -o address`,
		Args: arguments("the address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output == "address" && of == "" {
				return wrongUsage(cmd, "-o address prints the mapped address of a pod of a remote cluster: name its Peering with --of")
			}
			address, err := netip.ParseAddr(args[0])
			if err != nil || address.Zone() != "" {
				return wrongUsage(cmd, "%q is not an IP address: write one like 10.71.2.9 or fd00:71::9", args[0])
			}
			ctx := cmd.Context()
			c, err := cluster.open(ctx)
			if err != nil {
				return err
			}
			var is *operator.Resolved
			if of == "" {
				is, err = operator.Resolve(ctx, c, address.Unmap())
			} else {
				is, err = operator.SeenHere(ctx, c, of, address.Unmap())
			}
			if err != nil {
				return err
			}
			text := is.Address + "\n"
			if output != "address" {
				text = ""
				for _, m := range is.Meanings {
					text += fmt.Sprintf("%s: %s\n", is.Address, m.Text)
				}
			}
			if err := printResult(cmd, output, is, "%s", text); err != nil {
				return err
			}
			if len(is.Meanings) == 0 {
				return fmt.Errorf("Strait does not use %s in cluster %s: run strait status for the mapped CIDRs", is.Address, is.ClusterID)
			}
			return nil
		},
	}
	cluster.register(c)
	c.Flags().StringVar(&of, "of", "", "`PEERING` with the remote cluster in which a pod has the address")
	outputFlag(c, &output, "address")
	return c
}
