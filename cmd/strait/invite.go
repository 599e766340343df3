package main

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/operator"
)

type inviteCommand struct {
	cluster clusterFlags
	options operator.InviteOptions
	id      string
	service string
	listed  []string
	accept  []string
	dry     dryRun
	consent consent
	wait    time.Duration
	output  string
}

func newInvite() *cobra.Command {
	f := inviteCommand{}
	c := &cobra.Command{
		Use:   "invite NAME",
		Short: "Create an invite for another cluster",
		Long: `Write a Peering that waits for another cluster, and print an invite for it: one line
that strait accept uses once in the other cluster. Neither side needs access to the
other's API server.

The invite is a secret: until it expires or is used, the bearer of the token can join
this cluster. It holds a temporary private key, which is void once the clusters have
exchanged their own keys through the tunnel.

NAME is the name of the Peering in this cluster, best the ID of the other cluster. A new
invite of the same name voids an earlier one that is not accepted yet.`,
		Example: `  strait invite b > b.invite
  strait invite b --context a --expires 24h --service-type LoadBalancer
  strait invite b --prefixes 10.1.0.0/16
  strait invite b --cluster-id b
  strait invite b --dry-run`,
		Args: arguments("the name of the Peering"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.cluster.register(c)
	f.dry.register(c)
	f.consent.register(c, "with --replace: delete without asking")
	c.Flags().DurationVar(&f.options.Expires, "expires", time.Hour, "how long the invite is valid, 168h (7 days) at most")
	c.Flags().StringVar(&f.id, "cluster-id", "", "ID of the other cluster, as kubectl get clusternetworks shows it there: another cluster cannot use the invite under its own ID (default: the ID that the first cluster announces)")
	c.Flags().StringVar(&f.service, "service-type", "", "type of the Service of this cluster's gateways: NodePort or LoadBalancer "+
		"(default: LoadBalancer if another Service has an address of a load balancer, else NodePort)")
	c.Flags().StringSliceVar(&f.listed, "prefixes", nil, "pod CIDRs of the other cluster, which keep their addresses where they are free in this cluster (default: none; what the other cluster announces is mapped to the remap pools)")
	c.Flags().StringSliceVar(&f.accept, "accept-prefixes", nil, "CIDRs that the other cluster may announce, in addition to private ones")
	c.Flags().BoolVar(&f.options.Replace, "replace", false, "delete Peering NAME first if it is in use, and create it again")
	c.Flags().StringVar(&f.options.GatewayNamespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().Int32Var(&f.options.Replicas, "replicas", 0, "gateways in this cluster, 1 to 16 (default: unchanged; 2 in a new Peering)")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait for the gateways to run and have endpoints")
	completeValues(c, "service-type", inviteServiceTypes)
	outputFlag(c, &f.output)
	return c
}

// invitation is an invite in JSON and YAML.
type invitation struct {
	Name      string             `json:"name"`
	ClusterID v1alpha1.ClusterID `json:"clusterID"` // of the cluster that invites
	NotAfter  time.Time          `json:"notAfter"`
	Token     string             `json:"token"` // a secret
}

func (f *inviteCommand) run(cmd *cobra.Command, name string) (err error) {
	if err := operator.CheckName(name); err != nil {
		return wrongUsage(cmd, "%w", err)
	}
	if f.options.Expires < time.Minute || f.options.Expires > operator.LongestInvite {
		return wrongUsage(cmd, "--expires %s: use 1m to %s", briefly(f.options.Expires), briefly(operator.LongestInvite))
	}
	if f.id != "" {
		if err := config.CheckLabel(f.id); err != nil {
			return wrongUsage(cmd, "--cluster-id %s: %w", f.id, err)
		}
	}
	if err := f.consent.check(cmd, f.options.Replace && !f.dry.on); err != nil {
		return err
	}
	f.options.ClusterID = v1alpha1.ClusterID(f.id)
	if f.options.ServiceType, err = serviceType(cmd, f.service, inviteServiceTypes); err != nil {
		return err
	}
	if f.options.Prefixes, err = parseCIDRs[v1alpha1.CIDR](cmd, "--prefixes", f.listed); err != nil {
		return err
	}
	if f.options.AcceptPrefixes, err = parseCIDRs[v1alpha1.AcceptedCIDR](cmd, "--accept-prefixes", f.accept); err != nil {
		return err
	}
	ctx := cmd.Context()
	c, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	if err := f.consent.ask(cmd, fmt.Sprintf("Delete Peering %s in %s if it is in use? Its connections end at once.", name, c.Name)); err != nil {
		return err
	}
	f.dry.apply(&c)
	f.options.Name, f.options.Random, f.options.Now, f.options.Waiting = name, rand.Reader, time.Now, f.dry.waiting(cmd, f.wait)
	invite, err := operator.NewInvite(ctx, c, f.options)
	if f.dry.on {
		return f.dry.print(cmd, f.output, err)
	}
	if err != nil {
		return resumable(err)
	}
	token, err := invite.Token()
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "This invite is a secret: until %s the bearer of the token can join cluster %s.\nAccept it in the other cluster with: strait accept\n",
		invite.NotAfter.Local().Format(time.RFC1123), invite.ClusterID)
	return printResult(cmd, f.output, invitation{name, invite.ClusterID, invite.NotAfter, token}, "%s\n", token)
}

func parseCIDRs[C ~string](cmd *cobra.Command, flag string, texts []string) (all []C, err error) {
	prefixes, err := parsePrefixes(cmd, flag, texts)
	for _, p := range prefixes {
		all = append(all, C(p.String()))
	}
	return all, err
}

func parsePrefixes(cmd *cobra.Command, flag string, texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, wrongUsage(cmd, "%s %s: is not a CIDR; write one like 10.0.0.0/16 or fd00:10::/48", flag, text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// briefly is a duration without zero minutes and seconds at its end, as in 168h.
func briefly(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
