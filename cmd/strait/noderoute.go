package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"strait.dev/strait/node"
)

// newNodeRoute is what strait trace runs in the pods of the nodes' helpers.
func newNodeRoute() *cobra.Command {
	var from, output string
	c := &cobra.Command{
		Use:    "route ADDRESS",
		Hidden: true,
		Short:  "Say where this node's kernel sends packets to an address",
		Long: `Say where this node's kernel sends packets to an address: by its own answer, which
device, gateway and MTU, and what Strait has set up for it. Nothing is changed.`,
		Example: `  strait node route 10.71.2.9 --from 10.0.1.5
  strait node route 10.71.2.9 -o json`,
		Args: arguments("the address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(cmd, output, "text", "json"); err != nil {
				return err
			}
			to, err := netip.ParseAddr(args[0])
			if err != nil || to.Zone() != "" {
				return wrongUsage(cmd, "%q is not an address; write one like 10.71.2.9 or fd00:71::9", args[0])
			}
			var source netip.Addr
			if from != "" {
				if source, err = netip.ParseAddr(from); err != nil || source.Unmap().Is4() != to.Unmap().Is4() {
					return wrongUsage(cmd, "--from %q is not an address of the family of %s; write one like 10.0.1.5", from, to)
				}
			}
			way, err := node.FindWay(to.Unmap(), source.Unmap())
			if err != nil {
				return err
			}
			if output == "json" {
				return printAs(cmd.OutOrStdout(), "json", way)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), wayText(way))
			return err
		},
	}
	c.Flags().StringVar(&from, "from", "", "source of the packets: an address of a pod (default: the node itself)")
	c.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return c
}

// wayText is a way in a line.
func wayText(w node.Way) string {
	switch {
	case w.Refused != "":
		return w.Refused
	case w.Local:
		return "to this node itself"
	case w.Via.IsValid():
		return fmt.Sprintf("by %s via %v, MTU %d", w.Device, w.Via, w.MTU)
	}
	return fmt.Sprintf("by %s, MTU %d", w.Device, w.MTU)
}
