package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/operator"
)

// peerCommand is what `strait peer` is told.
type peerCommand struct {
	local, remote clusterFlags
	options       operator.JoinOptions
	service       string
	wait          time.Duration
	output        string
}

func newPeer() *cobra.Command {
	f := peerCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "peer --context A --remote-context B",
		Short: "Join two clusters to which you have access",
		Long: `Join two clusters: write a Peering in each, wait for the gateways of both, tell
each side the keys and endpoints of the other, and wait until packets cross both
ways. All pods of both clusters may then reach each other.

The gateways of the remote cluster are called, those of the local one call; if only
the local one can be reached, exchange the two.

It may be run again at any time: it goes on where it ended, and changes nothing of
clusters that are joined. Without access to both clusters, use strait invite and
strait accept, or objects (strait status --for-remote).`,
		Example: `  strait peer --context a --remote-context b
  strait peer --kubeconfig a.yaml --remote-kubeconfig b.yaml --service-type LoadBalancer
  strait peer --context a --remote-context b --name prod-b --remote-name prod-a --wait 5m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.local.register(c)
	f.remote.register(c)
	c.Flags().StringVar(&f.options.Name, "name", "", "name of the Peering with the remote cluster (default: the remote cluster's ID)")
	c.Flags().StringVar(&f.options.RemoteName, "remote-name", "", "name of the Peering in the remote cluster (default: the local cluster's ID)")
	c.Flags().StringVar(&f.service, "service-type", "", "how the remote cluster's gateways are called: "+
		"NodePort, LoadBalancer or ClusterIP (default: LoadBalancer where another Service has an address as such, else NodePort)")
	c.Flags().Int32Var(&f.options.Replicas, "replicas", 0, "gateways on each side, 1 to 16 (default: as they are, or 1)")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait for the gateways, and then for packets to cross")
	c.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	return c
}

func (f *peerCommand) run(cmd *cobra.Command) error {
	if !f.remote.given() {
		return wrongUsage(cmd, "--remote-context is missing; name the context of the other cluster, or its kubeconfig file with --remote-kubeconfig")
	}
	if err := checkOutput(cmd, f.output, "text", "json"); err != nil {
		return err
	}
	if err := checkWait(cmd, f.wait); err != nil {
		return err
	}
	if cmd.Flags().Changed("replicas") && (f.options.Replicas < 1 || f.options.Replicas > 16) {
		return wrongUsage(cmd, "--replicas %d: use 1 to 16", f.options.Replicas)
	}
	for flag, name := range map[string]string{"--name": f.options.Name, "--remote-name": f.options.RemoteName} {
		if name == "" {
			continue
		}
		if err := operator.CheckName(name); err != nil {
			return wrongUsage(cmd, "%s: %w", flag, err)
		}
	}
	var err error
	if f.options.ServiceType, err = serviceType(cmd, f.service, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeClusterIP); err != nil {
		return err
	}
	local, err := f.local.open()
	if err != nil {
		return err
	}
	f.remote.beside(f.local)
	remote, err := f.remote.open()
	if err != nil {
		return fmt.Errorf("remote cluster: %w", err)
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	f.options.Waiting = waiting(cmd, f.wait)
	joined, err := operator.Join(ctx, local, remote, f.options)
	if err != nil {
		return goesOn(err)
	}
	if f.output == "json" {
		return printAs(cmd.OutOrStdout(), "json", joined)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s and %s are joined: Peering %s in the one, %s in the other.\nstrait status shows how they are doing.\n",
		local.Name, remote.Name, joined.Local.Name, joined.Remote.Name)
	return nil
}

// serviceType reads a type of Service, of those that fit.
func serviceType(cmd *cobra.Command, text string, of ...corev1.ServiceType) (corev1.ServiceType, error) {
	if t := corev1.ServiceType(text); text == "" || slices.Contains(of, t) {
		return t, nil
	}
	remedy := fmt.Sprintf("choose one of %v", of)
	if text == string(corev1.ServiceTypeClusterIP) {
		remedy = "nobody could call the gateways; " + remedy
	}
	return "", wrongUsage(cmd, "--service-type %s: %s", text, remedy)
}
