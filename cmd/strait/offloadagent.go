//go:build linux

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/health"
)

// offloadAgent holds the flags that the lender and the borrower have in common.
type offloadAgent struct{ peering, namespace, kubeconfig, health string }

func (f *offloadAgent) register(c *cobra.Command) {
	c.Flags().StringVar(&f.peering, "peering", os.Getenv("STRAIT_PEERING"), "name of the Peering (default: $STRAIT_PEERING)")
	c.Flags().StringVar(&f.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "namespace of the Lease and the Secret of the agent (default: $POD_NAMESPACE)")
	c.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file (default: the service account of the pod)")
	c.Flags().StringVar(&f.health, "health-listen", "", "address:port of /healthz, /readyz and /metrics (default: none are served)")
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

// serve serves health and metrics.
func (f *offloadAgent) serve(o health.Options) (*health.Server, error) {
	o.Listen = f.health
	server, err := health.Serve(o)
	if err != nil {
		return nil, fmt.Errorf("--health-listen %s: %w", f.health, err)
	}
	return server, nil
}
