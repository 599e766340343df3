package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/nodehelper"
	"strait.dev/strait/node"
)

func newNode() *cobra.Command {
	var name, kubeconfig, listen string
	var remove bool
	c := &cobra.Command{
		Use:   "node",
		Short: "Connect a node to the gateways",
		Long: `Connect the node it runs on to the gateways of all Peerings: kernel tunnel
devices, routes, and a table of nftables that settles source addresses. It needs
CAP_NET_ADMIN in the node's network namespace, and, where the kernel has neither
Geneve nor VXLAN, /dev/net/tun.

What it sets up is repaired when somebody changes it, and stays when the helper
ends: restarts and upgrades lose no packet, but where packets go through the helper
itself, for want of Geneve and VXLAN in the kernel. Only --remove takes it away.`,
		Example: `  strait node --node node-1
  strait node --remove`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if remove {
				return removeNode()
			}
			if name == "" {
				name = os.Getenv("NODE_NAME")
			}
			if name == "" {
				return &usageError{errors.New("--node is missing: the name of the node; give it, or set NODE_NAME"), "strait node --help"}
			}
			access, err := client.Config(kubeconfig)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))
			klog.SetSlogLogger(log) // what client-go has to say
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			o := nodehelper.Options{Node: name, Listen: listen, Log: log}
			if o.Client, err = client.New(access); err != nil {
				return err
			}
			return runNode(ctx, o)
		},
	}
	c.Flags().StringVar(&name, "node", "", "name of the node (or $NODE_NAME)")
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "file with access to the cluster; without it, that of the pod")
	c.Flags().StringVar(&listen, "listen", "", "address:port of /healthz, /readyz and /metrics (default: nothing is served)")
	c.Flags().BoolVar(&remove, "remove", false, "take away everything that Strait set up on the node, and exit")
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

func removeNode() error {
	k, err := node.Open()
	if err != nil {
		return err
	}
	defer k.Close()
	return k.Remove()
}
