package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/operator"
)

func newResolve() *cobra.Command {
	var cluster clusterFlags
	var output, of string
	c := &cobra.Command{
		Use:   "resolve ADDRESS",
		Short: "Say what an address means in this cluster",
		Long: `Say what an address means in this cluster: a pod of a remote cluster, and what that
cluster knows it as; a node's pods; an address of a node or gateway, inside or for
other clusters; a mapped host; or the range that it lies in. It ends with 1 if the
address means nothing here.

With --of it is the other way round: the address is what the remote cluster of that
Peering calls its pod, and what is said is where this cluster sees it. With
-o address that is printed alone.`,
		Example: `  strait resolve 10.71.2.9
  strait resolve 10.71.2.9 --context a -o json
  strait resolve 10.0.2.9 --of b -o address`,
		Args: arguments("the address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(cmd, output, "text", "json", "address"); err != nil {
				return err
			}
			if output == "address" && of == "" {
				return wrongUsage(cmd, "-o address prints where an address of a remote cluster is seen; name its Peering with --of")
			}
			address, err := netip.ParseAddr(args[0])
			if err != nil || address.Zone() != "" {
				return wrongUsage(cmd, "%q is not an address; write one like 10.71.2.9 or fd00:71::9", args[0])
			}
			c, err := cluster.open()
			if err != nil {
				return err
			}
			ctx, stop := interruptible(cmd)
			defer stop()
			var is *operator.Resolved
			if of == "" {
				is, err = operator.Resolve(ctx, c, address.Unmap())
			} else {
				is, err = operator.SeenHere(ctx, c, of, address.Unmap())
			}
			if err != nil {
				return err
			}
			switch output {
			case "json":
				if err := printAs(cmd.OutOrStdout(), "json", is); err != nil {
					return err
				}
			case "address":
				fmt.Fprintln(cmd.OutOrStdout(), is.Address)
			default:
				for _, m := range is.Meanings {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", is.Address, m.Text)
				}
			}
			if len(is.Meanings) == 0 {
				return fmt.Errorf("%s means nothing that Strait knows of in cluster %s; strait status lists what is seen there of other clusters", is.Address, is.ClusterID)
			}
			return nil
		},
	}
	cluster.register(c)
	c.Flags().StringVar(&of, "of", "", "Peering with the remote cluster whose address it is")
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json; with --of, or address")
	return c
}
