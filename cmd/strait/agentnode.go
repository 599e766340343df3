package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"strait.dev/strait/node"
)

func newAgentNode() *cobra.Command {
	return &cobra.Command{
		Use:     "node",
		Short:   "Look at the node, whether Strait can work on it and what it left, and print that",
		Example: "  strait agent node",
		Args:    cobra.NoArgs,
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
