package main

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/operator"
)

// inviteCommand is what `strait invite` is told.
type inviteCommand struct {
	cluster clusterFlags
	options operator.InviteOptions
	service string
	accept  []string
	wait    time.Duration
	output  string
}

func newInvite() *cobra.Command {
	f := inviteCommand{}
	c := &cobra.Command{
		Use:   "invite NAME",
		Short: "Invite another cluster to join this one",
		Long: `Write a Peering NAME that waits for another cluster, and print an invite for it: one
line that is used once, by strait accept over there. Neither side needs access to the
other's API server.

The invite is a secret: until it expires or is used, whoever has it joins this
cluster in place of the one that you mean. It holds a temporary key that is worth
nothing once both clusters have told each other their own keys through the tunnel.

NAME is what the other cluster is called here. Inviting again under the same name,
before anybody has accepted, makes the former invite worthless.`,
		Example: `  strait invite b > b.invite
  strait invite b --context a --expires 24h --service-type LoadBalancer
  strait accept --context b < b.invite`,
		Args: arguments("the name of the Peering, which is best that of the cluster to invite,"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.cluster.register(c)
	c.Flags().DurationVar(&f.options.Expires, "expires", time.Hour, "how long the invite can be accepted, 7 days (168h) at most")
	c.Flags().StringVar(&f.service, "service-type", "", "how the gateways here are called: "+
		"NodePort or LoadBalancer (default: LoadBalancer where another Service has an address as such, else NodePort)")
	c.Flags().StringSliceVar(&f.accept, "accept-prefixes", nil, "ranges that the other cluster may have, beside the private ranges of IPv4")
	c.Flags().BoolVar(&f.options.Replace, "replace", false, "part from the cluster that Peering NAME is with, and invite anew")
	c.Flags().StringVar(&f.options.GatewayNamespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait for the gateways to run and have endpoints")
	c.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	return c
}

// invitation is the JSON form of an invite.
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
	if err := checkOutput(cmd, f.output, "text", "json"); err != nil {
		return err
	}
	if err := checkWait(cmd, f.wait); err != nil {
		return err
	}
	if f.options.Expires < time.Minute || f.options.Expires > operator.LongestInvite {
		return wrongUsage(cmd, "--expires %v: use 1m to %v", f.options.Expires, operator.LongestInvite)
	}
	if f.options.ServiceType, err = serviceType(cmd, f.service, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer); err != nil {
		return err
	}
	ranges, err := parseRanges(cmd, "--accept-prefixes", f.accept)
	if err != nil {
		return err
	}
	for _, p := range ranges {
		f.options.AcceptPrefixes = append(f.options.AcceptPrefixes, v1alpha1.CIDR(p.String()))
	}
	c, err := f.cluster.open()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	f.options.Name, f.options.Random, f.options.Now, f.options.Waiting = name, rand.Reader, time.Now, waiting(cmd, f.wait)
	invite, err := operator.NewInvite(ctx, c, f.options)
	if err != nil {
		return goesOn(err)
	}
	token, err := invite.Token()
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "This invite is a secret: until %s, whoever has it joins cluster %s. Accept it in the other cluster with strait accept.\n",
		invite.NotAfter.Local().Format(time.RFC1123), invite.ClusterID)
	if f.output == "json" {
		return printAs(cmd.OutOrStdout(), "json", invitation{name, invite.ClusterID, invite.NotAfter, token})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
	return err
}

// parseRanges reads prefixes of a flag.
func parseRanges(cmd *cobra.Command, flag string, texts []string) (all []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, wrongUsage(cmd, "%s: %q is not a prefix; write one like 10.0.0.0/16 or fd00:10::/48", flag, text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}
