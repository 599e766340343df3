//go:build linux

package main

import (
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/metrics"
)

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
			o := lender.Options{Peering: agent.peering, Namespace: agent.namespace, Stats: new(lender.Stats)}
			registry := health.NewRegistry(metrics.Lender(agent.peering, o.Stats), metrics.Requests(agent.peering, config))
			if o.Client, err = client.New(config); err != nil {
				return err
			}
			if o.Listener, err = net.Listen("tcp", listen); err != nil {
				return fmt.Errorf("--listen %s: %w", listen, err)
			}
			o.Log = podLog(cmd)
			server, err := agent.serve(health.Options{Metrics: registry, Log: o.Log})
			if err != nil {
				return err
			}
			defer server.Close()
			return lender.Run(cmd.Context(), o)
		},
	}
	agent.register(c)
	c.Flags().StringVar(&listen, "listen", ":6097", "address:port for the borrower")
	return c
}
