package main

import (
	"github.com/spf13/cobra"

	"strait.dev/strait/node"
)

// newNodeState is what strait gather runs in the pods of the nodes' helpers.
func newNodeState() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:    "state",
		Hidden: true,
		Short:  "Show what this node's network consists of",
		Long: `Show what this node's network consists of, ours and others': devices, rules, routes,
tables of nftables, settings. Nothing is changed.`,
		Example: "  strait node state -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(cmd, output, "json", "yaml"); err != nil {
				return err
			}
			s, err := node.ReadInventory()
			if err != nil {
				return err
			}
			return printAs(cmd.OutOrStdout(), output, s)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "json", "json or yaml")
	return c
}
