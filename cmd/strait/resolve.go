package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/operator"
)

func newResolve() *cobra.Command {
	var cluster clusterFlags
	var output string
	c := &cobra.Command{
		Use:   "resolve ADDRESS",
		Short: "Say what an address means in this cluster",
		Long: `Say what an address means in this cluster: a pod of a remote cluster, and what that
cluster knows it as; a node's pods; an address of a node or gateway, inside or for
other clusters; a mapped host; or the range that it lies in. It ends with 1 if the
address means nothing here.`,
		Example: `  strait resolve 10.71.2.9
  strait resolve 10.71.2.9 --context a -o json`,
		Args: arguments("the address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(cmd, output, "text", "json"); err != nil {
				return err
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
			is, err := operator.Resolve(ctx, c, address.Unmap())
			if err != nil {
				return err
			}
			if output == "json" {
				if err := printAs(cmd.OutOrStdout(), "json", is); err != nil {
					return err
				}
			} else {
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
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}
