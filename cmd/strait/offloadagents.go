//go:build linux

package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/lender"
	"strait.dev/strait/offload/metrics"
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

func (f *offloadAgent) serve(o health.Options) (*health.Server, error) {
	o.Listen = f.health
	server, err := health.Serve(o)
	if err != nil {
		return nil, fmt.Errorf("--health-listen %s: %w", f.health, err)
	}
	return server, nil
}

func newBorrower() *cobra.Command {
	var agent offloadAgent
	var podIPs, listen string
	c := &cobra.Command{
		Use:   "borrower",
		Short: "Run the borrower, the virtual node for another cluster",
		Long: `Run the borrower of a Peering in the foreground: the virtual node of spec.borrow of the
Peering. Pods that are scheduled to it run in the remote cluster, if their namespace is
offloaded there and the remote cluster lends it. It impersonates its node, with the rights
of a kubelet and no others.

The borrower makes its key when it first starts, and stores it in the Secret
strait-borrower-PEERING. The annotation strait.dev/fingerprint of the Secret is the
fingerprint for spec.borrow of the Peering.

On the kubelet port it serves logs, exec, attach and port-forward of these pods, to clients
that have the permission to create nodes/proxy (for logs: get) of the node.

While the remote cluster does not answer, the borrower renews no lease of its node and
writes no states of pods; they keep running there.`,
		Example: `  strait borrower --peering b
  strait borrower --peering b --namespace strait-borrower --pod-ips 10.0.1.9 --kubeconfig ~/.kube/config`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := agent.check(cmd); err != nil {
				return err
			}
			o := borrower.Options{Peering: agent.peering, Namespace: agent.namespace, Stats: new(borrower.Stats)}
			for text := range strings.SplitSeq(podIPs, ",") {
				if _, err := netip.ParseAddr(text); err != nil {
					return wrongUsage(cmd, "--pod-ips: %q is not an IP address; write addresses like 10.0.1.9,fd00:10::9, or set POD_IPS", text)
				}
				o.Addresses = append(o.Addresses, text)
			}
			var err error
			if o.API, err = client.Config(agent.kubeconfig); err != nil {
				return err
			}
			if o.Listener, err = net.Listen("tcp", listen); err != nil {
				return fmt.Errorf("--listen %s: %w", listen, err)
			}
			registry := health.NewRegistry(metrics.Borrower(agent.peering, o.Stats), metrics.Requests(agent.peering, o.API))
			o.Log = podLog(cmd)
			server, err := agent.serve(health.Options{Metrics: registry, Log: o.Log})
			if err != nil {
				return err
			}
			defer server.Close()
			return borrower.Run(cmd.Context(), o)
		},
	}
	agent.register(c)
	c.Flags().StringVar(&podIPs, "pod-ips", os.Getenv("POD_IPS"), "addresses of the pod, separated by commas, which are those of the node (default: $POD_IPS)")
	c.Flags().StringVar(&listen, "listen", fmt.Sprintf(":%d", borrower.Port), "address:port of the kubelet port of the node")
	return c
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
