//go:build linux

package main

import (
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/lender"
)

// offloadAgent holds the flags that the lender and the borrower have in common.
type offloadAgent struct{ peering, namespace, kubeconfig string }

func (f *offloadAgent) register(c *cobra.Command) {
	c.Flags().StringVar(&f.peering, "peering", os.Getenv("STRAIT_PEERING"), "name of the Peering (default: $STRAIT_PEERING)")
	c.Flags().StringVar(&f.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the Lease and the Secret of the agent (default: $POD_NAMESPACE)")
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: the service account of the pod)")
}

func (f *offloadAgent) check(cmd *cobra.Command) error {
	switch {
	case f.peering == "":
		return wrongUsage(cmd, "--peering is missing: name the Peering, or set STRAIT_PEERING")
	case f.namespace == "":
		return wrongUsage(cmd, "--namespace is missing: name the namespace of the Lease, or set POD_NAMESPACE")
	}
	return nil
}

func newLender() *cobra.Command {
	var agent offloadAgent
	var listen string
	c := &cobra.Command{
		Use:   "lender",
		Short: "Run the lender, which runs pods of another cluster",
		Long: `Run the lender of a Peering in the foreground. It makes the twins of pods of the remote
cluster, in the namespaces of spec.lend of the Peering, with its own rights and after its
own checks. Only the borrower of the remote cluster can connect to it.

The lender makes its key when it first starts, and stores it in the Secret
strait-lender-PEERING. The annotation strait.dev/fingerprint of the Secret is the
fingerprint for spec.lend.lender of the Peering.

Twins keep running while the lender or the remote cluster is away.`,
		Example: `  strait lender --peering a
  strait lender --peering a --namespace strait-lender --kubeconfig ~/.kube/config --listen 127.0.0.1:6097`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := agent.check(cmd); err != nil {
				return err
			}
			config, err := client.Config(agent.kubeconfig)
			if err != nil {
				return err
			}
			o := lender.Options{Peering: agent.peering, Namespace: agent.namespace}
			if o.Client, err = client.New(config); err != nil {
				return err
			}
			if o.Listener, err = net.Listen("tcp", listen); err != nil {
				return fmt.Errorf("--listen %s: %w", listen, err)
			}
			ctx, log, stop := podContext(cmd)
			defer stop()
			o.Log = log
			return lender.Run(ctx, o)
		},
	}
	agent.register(c)
	c.Flags().StringVar(&listen, "listen", ":6097", "address:port for the borrower")
	return c
}
