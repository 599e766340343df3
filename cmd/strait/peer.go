package main

import (
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/operate/operator"
)

type peerCommand struct {
	local, remote clusterFlags
	options       operator.JoinOptions
	service       string
	dry           dryRun
	wait          time.Duration
	output        string
}

func newPeer() *cobra.Command {
	f := peerCommand{remote: clusterFlags{remote: true, required: true}}
	c := &cobra.Command{
		Use:   "peer --context A --remote-context B",
		Short: "Join two clusters with access to both",
		Long: `Join two clusters: write a Peering in each, wait for the gateways of both, exchange
their public keys and endpoints, and wait until packets pass in both directions. All
pods of both clusters may then reach each other.

The gateways of the local cluster open the connections and those of the remote cluster
accept them. If only the local cluster accepts connections, exchange --context and
--remote-context.

The command can be run again at any time: it continues an interrupted run, and changes
nothing where the clusters are joined. Without access to both clusters, use strait
invite and strait accept, or apply the objects (strait status --for-remote).`,
		Example: `  strait peer --context a --remote-context b
  strait peer --kubeconfig a.yaml --remote-kubeconfig b.yaml --service-type LoadBalancer
  strait peer --context a --remote-context b --name prod-b --remote-name prod-a --wait 5m
  strait peer --context a --remote-context b --dry-run`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.local.register(c)
	f.remote.register(c)
	f.dry.register(c)
	c.Flags().StringVar(&f.options.Name, "name", "", "name of the Peering in the local cluster (default: the remote cluster's ID)")
	c.Flags().StringVar(&f.options.RemoteName, "remote-name", "", "name of the Peering in the remote cluster (default: the local cluster's ID)")
	c.Flags().StringVar(&f.service, "service-type", "", "type of the Service of the remote cluster's gateways: NodePort, LoadBalancer or ClusterIP "+
		"(default: LoadBalancer if another Service has an address of a load balancer, else NodePort)")
	c.Flags().Int32Var(&f.options.Replicas, "replicas", 0, "gateways in each cluster, 1 to 16 (default: unchanged; 2 in a new Peering)")
	c.Flags().BoolVar(&f.options.KeepAddresses, "keep-addresses", false, "let the CIDRs of each cluster keep their addresses in the other one where they are free (default: they are mapped to the remap pools)")
	c.Flags().BoolVarP(&f.options.Yes, "yes", "y", false, "join clusters with CIDRs that are not private, or with other gateways than those of an existing Peering")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait for the gateways, and again for packets to pass")
	completeValues(c, "service-type", peerServiceTypes)
	outputFlag(c, &f.output)
	return c
}

func (f *peerCommand) run(cmd *cobra.Command) error {
	if !f.remote.given() {
		return wrongUsage(cmd, "--remote-context is missing: name the context of the other cluster, or its kubeconfig file with --remote-kubeconfig")
	}
	for _, given := range [][2]string{{"--name", f.options.Name}, {"--remote-name", f.options.RemoteName}} {
		flag, name := given[0], given[1]
		if name == "" {
			continue
		}
		if err := operator.CheckName(name); err != nil {
			return wrongUsage(cmd, "%s: %w", flag, err)
		}
	}
	var err error
	if f.options.ServiceType, err = serviceType(cmd, f.service, peerServiceTypes); err != nil {
		return err
	}
	ctx := cmd.Context()
	local, remote, err := openBoth(ctx, &f.local, &f.remote)
	if err != nil {
		return err
	}
	f.dry.apply(&local, remote)
	f.options.Waiting = f.dry.waiting(cmd, f.wait)
	joined, err := operator.Join(ctx, local, *remote, f.options)
	if f.dry.on {
		return f.dry.print(cmd, f.output, err)
	}
	if err != nil {
		return resumable(err)
	}
	return printResult(cmd, f.output, joined, "%s and %s are joined: Peering %s in the first, Peering %s in the second.\nTo see their state, run: strait status\n",
		local.Name, remote.Name, joined.Local.Name, joined.Remote.Name)
}

// The types of the Service of gateways. Another cluster that has no access to this one cannot
// reach a ClusterIP.
var (
	inviteServiceTypes = []corev1.ServiceType{corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}
	peerServiceTypes   = append(inviteServiceTypes[:2:2], corev1.ServiceTypeClusterIP)
)

// serviceType parses a type of Service. Only those in of are accepted.
func serviceType(cmd *cobra.Command, text string, of []corev1.ServiceType) (corev1.ServiceType, error) {
	if t := corev1.ServiceType(text); text == "" || slices.Contains(of, t) {
		return t, nil
	}
	remedy := "choose " + choice(of)
	if text == string(corev1.ServiceTypeClusterIP) {
		remedy = "the other cluster could not reach the gateways; " + remedy
	}
	return "", wrongUsage(cmd, "--service-type %s: %s", text, remedy)
}
