//go:build linux

package main

import (
	"cmp"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/smallfile"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/values"
	"strait.dev/strait/k8s/install"
)

// The request rate per second and the burst of the controller: an import of 2,000 Services
// takes 10,000 writes.
const importRate, importBurst = 500, 1000

func newController() *cobra.Command {
	var kubeconfig, template, helpers, network string
	policies, services := true, true
	o := controller.Options{Namespace: os.Getenv("POD_NAMESPACE"), Identity: os.Getenv("POD_NAME")}
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller of a cluster",
		Long: `Run the controller in the foreground. It detects the CIDRs of the cluster, allocates the
addresses of nodes and gateways, maps the CIDRs of remote clusters, and runs the gateways
of each Peering. Several replicas may run: one holds the lease and works, the others wait
for it.

The gateway template is the metadata and spec of a pod in YAML, with the settings that
gateways need in this cluster. Its container "gateway" is Strait's.

Files are read at start. The fields in the file of --cluster-network are applied then, and
override values that other writers have set in them.

The controller waits while the API server is unreachable. SIGTERM ends it.`,
		Example: `  strait controller --gateway-image registry.example/strait:v1
  strait controller --kubeconfig ~/.kube/config --namespace strait-system --identity me --gateway-template gateway.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Namespace == "" {
				return wrongUsage(cmd, "--namespace is missing: name the namespace of the lease, or set POD_NAMESPACE")
			}
			if o.Identity == "" {
				return wrongUsage(cmd, "--identity is missing: give a name that no other replica has, or set POD_NAME")
			}
			if err := cmp.Or(
				readSetting("--gateway-template", template, &o.Gateways.Template, values.ParseTemplate),
				readSetting("--node-template", helpers, &o.Helpers, values.ParseTemplate),
				readSetting("--cluster-network", network, &o.Network, values.ParseNetwork)); err != nil {
				return err
			}
			o.Gateways.NoPolicies, o.NoServices = !policies, !services
			if err := o.Gateways.Check(); err != nil {
				return wrongUsage(cmd, "%w", err)
			}
			config, err := client.Config(kubeconfig)
			if err != nil {
				return err
			}
			if kubeconfig == "" { // in a pod, so the DNS server is that of the cluster
				o.Resolver = net.DefaultResolver
				o.Connect = controller.ConnectToGateway
			}
			config.QPS, config.Burst = importRate, importBurst
			if o.Client, err = client.New(config); err != nil {
				return err
			}
			o.Log = podLog(cmd)
			return controller.Run(cmd.Context(), o)
		},
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file (default: the service account of the pod)")
	c.Flags().StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the lease (default: $POD_NAMESPACE)")
	c.Flags().StringVar(&o.Gateways.Namespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().StringVar(&o.Gateways.Image, "gateway-image", "", "image of the gateways (required unless the template has one)")
	c.Flags().StringVar(&template, "gateway-template", "", "file with the template of the gateways' pods, YAML")
	c.Flags().StringVar(&o.Gateways.ServiceAccount, "gateway-service-account", "strait-gateway", "service account of the gateways, in their namespace")
	c.Flags().StringVar(&helpers, "node-template", "", "file with the scheduling of the node helpers' pods, a pod template in YAML: other nodes are not attached (default: all are)")
	c.Flags().BoolVar(&o.Gateways.WithoutNodes, "without-nodes", false, "the cluster has no node helpers: gateways carry the connections to imported Services")
	c.Flags().BoolVar(&policies, "gateway-network-policy", policies, "create a NetworkPolicy for the gateways of each Peering, which identifies nodes by their addresses, and where the cluster has them a CiliumNetworkPolicy")
	c.Flags().BoolVar(&o.Gateways.AssignedUID, "gateway-assigned-uid", false, "let the cluster assign the UID of gateways, as OpenShift does")
	c.Flags().BoolVar(&services, "services", services, "export and import Services (Multi-Cluster Services API)")
	c.Flags().StringVar(&network, "cluster-network", "", "file with fields of the spec of ClusterNetwork default; fields that are no longer in it are removed")
	c.Flags().StringVar(&o.Listen, "listen", "", "address:port of /healthz, /readyz and /metrics (default: none are served)")
	c.Flags().StringVar(&o.Identity, "identity", o.Identity, "unique name of this replica (default: $POD_NAME)")
	return c
}

// readSetting parses the file of a flag, if it is given.
func readSetting[T any](flag, file string, into *T, parse func([]byte) (T, error)) error {
	if file == "" {
		return nil
	}
	text, err := smallfile.Read(file, smallfile.Template)
	if err != nil {
		return fileError(flag, file, err)
	}
	if *into, err = parse(text); err != nil {
		return fmt.Errorf("%s %s: %w", flag, file, err)
	}
	return nil
}
