//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/nodehelper"
	"strait.dev/strait/node"
)

func newNode() *cobra.Command {
	var name, kubeconfig, listen string
	var remove bool
	var consent consent
	c := &cobra.Command{
		Use:   "node",
		Short: "Run the node helper",
		Long: `Run the node helper in the foreground. It connects its node to the gateways of all
Peerings with kernel tunnel devices, routes, and an nftables table that sets source
addresses. It needs CAP_NET_ADMIN in the node's network namespace and, if the kernel has
neither Geneve nor VXLAN, /dev/net/tun.

The helper repairs its settings when another program changes them. The settings stay when
it ends, so that restarts and upgrades lose no packets, except where packets pass through
the helper itself because the kernel has neither Geneve nor VXLAN. Only --remove removes
the settings, and asks before it does.`,
		Example: `  strait node --node node-1
  strait node --remove
  strait node --remove --yes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if remove {
				return removeNode(cmd, consent)
			}
			if name == "" {
				name = os.Getenv("NODE_NAME")
			}
			if name == "" {
				return wrongUsage(cmd, "--node is missing: name the node, or set NODE_NAME")
			}
			access, err := client.Config(kubeconfig)
			if err != nil {
				return err
			}
			o := nodehelper.Options{Node: name, Listen: listen, Log: podLog(cmd)}
			if o.Client, err = client.New(access); err != nil {
				return err
			}
			return runNode(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&name, "node", "", "name of the node (or $NODE_NAME)")
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster (default: the pod's service account)")
	c.Flags().StringVar(&listen, "listen", "", "address:port of /healthz, /readyz and /metrics (default: none are served)")
	c.Flags().BoolVar(&remove, "remove", false, "remove all settings of Strait from the node, and exit")
	consent.register(c, "with --remove: remove without asking")
	c.AddCommand(newNodeRoute(), newNodeState())
	return c
}

func runNode(ctx context.Context, o nodehelper.Options) (err error) {
	if o.Kernel, err = node.Open(); err != nil {
		return err
	}
	defer o.Kernel.Close()
	if o.Prober, err = node.NewProber(); err != nil {
		return err
	}
	defer o.Prober.Close()
	return nodehelper.Run(ctx, o)
}

func removeNode(cmd *cobra.Command, consent consent) error {
	if err := consent.ask(cmd, "Remove all settings of Strait from this node? Its pods lose their connections to other clusters."); err != nil {
		return err
	}
	k, err := node.Open()
	if err != nil {
		return err
	}
	defer k.Close()
	return k.Remove()
}

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
