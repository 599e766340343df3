//go:build linux

package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"strait.dev/strait/node"
)

func newAgentNode() *cobra.Command {
	return &cobra.Command{
		Use:     "node",
		Short:   "Inspect the node for Strait's requirements and leftovers, and print the result",
		Example: "  strait agent node",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			k, err := node.Open()
			if err != nil {
				return err
			}
			defer k.Close()
			is, err := k.Inspect()
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(is)
		},
	}
}
