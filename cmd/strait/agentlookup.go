//go:build linux

package main

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/dns"
)

func newAgentLookup() *cobra.Command {
	return &cobra.Command{
		Use:     "lookup NAME...",
		Short:   "Resolve names with the DNS server of this pod, and print the answers",
		Example: "  strait agent lookup cart.shop.svc.clusterset.local",
		Args:    atLeastOne("the name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return json.NewEncoder(cmd.OutOrStdout()).Encode(dns.Lookup(ctx, args))
		},
	}
}
