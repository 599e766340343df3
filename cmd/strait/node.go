//go:build linux

package main

import (
	"context"
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
