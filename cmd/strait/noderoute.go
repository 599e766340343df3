//go:build linux

package main

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"strait.dev/strait/node"
)

// newNodeRoute is the command that strait trace runs in the pods of the node helpers.
func newNodeRoute() *cobra.Command {
	var from, output string
	c := &cobra.Command{
		Use:    "route ADDRESS",
		Hidden: true,
		Short:  "Show the route of this node's kernel to an address",
		Long: `Show the route of this node's kernel to an address: the device, gateway and MTU that the
kernel selects, and Strait's own settings for it. Nothing is changed.`,
		Example: `  strait node route 10.71.2.9 --from 10.0.1.5
  strait node route 10.71.2.9 -o json`,
		Args: arguments("the address"),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := netip.ParseAddr(args[0])
			if err != nil || to.Zone() != "" {
				return wrongUsage(cmd, "%q is not an IP address: write one like 10.71.2.9 or fd00:71::9", args[0])
			}
			var source netip.Addr
			if from != "" {
				if source, err = netip.ParseAddr(from); err != nil || source.Unmap().Is4() != to.Unmap().Is4() {
					return wrongUsage(cmd, "--from %s: is not an address of the IP family of %s; write one like 10.0.1.5", from, to)
				}
			}
			way, err := node.FindWay(to.Unmap(), source.Unmap())
			if err != nil {
				return err
			}
			return printResult(cmd, output, way, "%s\n", routeText(way))
		},
	}
	c.Flags().StringVar(&from, "from", "", "source address of the packets, of a pod (default: the node's own)")
	outputFlag(c, &output)
	return c
}

// routeText is a route as a line of text.
func routeText(w node.Way) string {
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
