package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/install"
)

func newController() *cobra.Command {
	var kubeconfig, template, network string
	policies := true
	o := controller.Options{Namespace: os.Getenv("POD_NAMESPACE"), Identity: os.Getenv("POD_NAME")}
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller of a cluster",
		Long: `Run the controller in the foreground. It detects which ranges the cluster uses,
gives nodes and gateways their addresses, decides where ranges of other
clusters are seen, and runs the gateways of each Peering. Several may run: one
works, the others wait for its lease.

A template has what the gateways' pods need in this cluster: the metadata and
spec of a pod, in YAML. The container in it that is named gateway is Strait's.

Files are read when it starts. What --cluster-network says is applied then, over
what others wrote into the same fields.

It waits for an API server that is away. SIGTERM ends it.`,
		Example: `  strait controller --gateway-image registry.example/strait:v1
  strait controller --kubeconfig ~/.kube/config --namespace strait-system --identity me --gateway-template gateway.yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Namespace == "" {
				return &usageError{errors.New("--namespace is missing; name the namespace of the lease, or set POD_NAMESPACE"), cmd.CommandPath() + " --help"}
			}
			if o.Identity == "" {
				return &usageError{errors.New("--identity is missing; give a name that no other controller of the cluster has, or set POD_NAME"), cmd.CommandPath() + " --help"}
			}
			if template != "" {
				text, err := os.ReadFile(template)
				if err != nil {
					return fmt.Errorf("--gateway-template: %w", err)
				}
				if o.Gateways.Template, err = controller.ParseTemplate(text); err != nil {
					return fmt.Errorf("--gateway-template %s: %w", template, err)
				}
			}
			if network != "" {
				text, err := os.ReadFile(network)
				if err != nil {
					return fmt.Errorf("--cluster-network: %w", err)
				}
				if o.Network, err = controller.ParseNetwork(text); err != nil {
					return fmt.Errorf("--cluster-network %s: %w", network, err)
				}
			}
			o.Gateways.NoPolicies = !policies
			if err := o.Gateways.Check(); err != nil {
				return &usageError{err, cmd.CommandPath() + " --help"}
			}
			config, err := client.Config(kubeconfig)
			if err != nil {
				return err
			}
			if o.Client, err = client.New(config); err != nil {
				return err
			}
			o.Log = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), nil))
			klog.SetSlogLogger(o.Log) // what client-go has to say
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			return controller.Run(ctx, o)
		},
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: the service account of the pod)")
	c.Flags().StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the lease (default: $POD_NAMESPACE)")
	c.Flags().StringVar(&o.Gateways.Namespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().StringVar(&o.Gateways.Image, "gateway-image", "", "image of the gateways (required unless the template has one)")
	c.Flags().StringVar(&template, "gateway-template", "", "file with the template of the gateways' pods")
	c.Flags().StringVar(&o.Gateways.ServiceAccount, "gateway-service-account", "strait-gateway", "service account of the gateways, in their namespace")
	c.Flags().BoolVar(&policies, "gateway-network-policy", policies, "make a NetworkPolicy for the gateways of each Peering; it tells nodes by their addresses")
	c.Flags().StringVar(&network, "cluster-network", "", "file with fields of the spec of ClusterNetwork default; those that were in it and are no longer are withdrawn")
	c.Flags().StringVar(&o.Listen, "listen", "", "address:port of /healthz, /readyz and /metrics (default: nothing is served)")
	c.Flags().StringVar(&o.Identity, "identity", o.Identity, "name among the controllers of the cluster (default: $POD_NAME)")
	return c
}
