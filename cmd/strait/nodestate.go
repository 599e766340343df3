//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"strait.dev/strait/node"
)

// newNodeState is the command that strait gather runs in the pods of the node helpers.
func newNodeState() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:    "state",
		Hidden: true,
		Short:  "Show the network state of this node",
		Long: `Show the network state of this node, of Strait and of other programs: devices, rules,
routes, nftables tables, settings. Nothing is changed.`,
		Example: "  strait node state -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := node.ReadInventory()
			if err != nil {
				return err
			}
			if output == "table" {
				output = "yaml"
			}
			return printAs(cmd.OutOrStdout(), output, s)
		},
	}
	outputFlag(c, &output)
	return c
}
