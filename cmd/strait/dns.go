package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/dns"
	"strait.dev/strait/operate/findings"
)

// dnsFlags are the flags of all commands of `strait dns`.
type dnsFlags struct {
	cluster clusterFlags
	coreDNS dns.Options
	output  string
}

func (f *dnsFlags) register(c *cobra.Command) {
	f.cluster.register(c)
	c.Flags().StringVar(&f.coreDNS.Namespace, "coredns-namespace", metav1.NamespaceSystem, "namespace of CoreDNS")
	c.Flags().StringVar(&f.coreDNS.Deployment, "coredns-deployment", "", "Deployment of CoreDNS (default: the one with the label k8s-app=kube-dns)")
	c.Flags().StringVar(&f.coreDNS.Version, "coredns-version", "", "version of CoreDNS (default: from its image or its metrics)")
	outputFlag(c, &f.output)
}

func newDNS() *cobra.Command {
	return group(&cobra.Command{
		Use:   "dns",
		Short: "Let CoreDNS serve the names of imported Services",
		Long: `Let the CoreDNS of a cluster serve the names of imported Services,
NAME.NAMESPACE.svc.clusterset.local, with its own support of the Multi-Cluster Services
API. This needs CoreDNS 1.12.2 or later.`,
		Example: `  strait dns configure --context a
  strait dns check --context a`,
	}, newDNSConfigure(), newDNSCheck(), newDNSRemove())
}

// dnsChange is `strait dns configure` or `strait dns remove`.
type dnsChange struct {
	dnsFlags
	consent
	dryRun bool
	plan   func(context.Context, *client.Client, dns.Options) (*dns.Plan, error)
	next   string // what to do after the change
}

func newDNSConfigure() *cobra.Command {
	f := dnsChange{
		plan: dns.PlanConfigure,
		next: "CoreDNS serves " + dns.Zone + " within 3 minutes; check it with strait dns check --wait.",
	}
	c := &cobra.Command{
		Use:   "configure",
		Short: "Configure CoreDNS to serve clusterset.local",
		Long: `Configure CoreDNS to serve clusterset.local: add the zone to the plugin kubernetes of its
Corefile, and permit it to read ServiceImports with the ClusterRole strait-coredns. In
distributions whose Corefile imports server blocks from a ConfigMap for users, such as
k3s and AKS, a server block is added there. Where NodeLocal DNSCache answers pods, a server
block in it forwards the zone to CoreDNS. The rest of the configuration is kept byte for
byte, and strait dns remove reverts the change.

The command shows the changes and asks before it makes them. It refuses a cluster in which
they would have no effect, or would stop CoreDNS, and says what to do instead.`,
		Example: `  strait dns configure --context a
  strait dns configure --dry-run
  strait dns configure --yes --coredns-deployment rke2-coredns-rke2-coredns`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(c)
	return c
}

func newDNSRemove() *cobra.Command {
	f := dnsChange{
		plan: dns.PlanRemove,
		next: "CoreDNS stops serving " + dns.Zone + " within 3 minutes.",
	}
	c := &cobra.Command{
		Use:   "remove",
		Short: "Remove clusterset.local from the configuration of CoreDNS",
		Long: `Remove clusterset.local from the configuration of CoreDNS, and the ClusterRole
strait-coredns. This reverts strait dns configure. Run it before you delete the CRD of
ServiceImports: a CoreDNS that serves the zone waits for ServiceImports when it starts.

The command shows the changes and asks before it makes them.`,
		Example: `  strait dns remove --context a
  strait dns remove --dry-run`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(c)
	return c
}

func (f *dnsChange) register(c *cobra.Command) {
	f.dnsFlags.register(c)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "have the API server check the changes without storing them, print them and exit")
	f.consent.register(c, "make the changes without asking")
}

func (f *dnsChange) run(cmd *cobra.Command) error {
	if f.output != "table" && !f.yes && !f.dryRun {
		return wrongUsage(cmd, "-o %s prints no question; add --yes or --dry-run", f.output)
	}
	ctx := cmd.Context()
	c, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	plan, err := f.plan(ctx, c.Client, f.coreDNS)
	if err != nil {
		return c.Failed("DNS", err)
	}
	if f.output == "table" {
		printChanges(cmd.OutOrStdout(), c.Name, plan)
	}
	to := c.Client
	switch {
	case f.dryRun:
		to = to.DryRun()
	case len(plan.Changes) > 0:
		if err := f.ask(cmd, "Make these changes?"); err != nil {
			return err
		}
	}
	if err := plan.Apply(ctx, to); err != nil {
		return c.Failed("DNS", err)
	}
	if f.output != "table" {
		return printAs(cmd.OutOrStdout(), f.output, plan)
	}
	switch {
	case f.dryRun || len(plan.Changes) == 0:
	case plan.Restart:
		fmt.Fprintf(cmd.OutOrStdout(), "Restart CoreDNS, which has no plugin reload: kubectl --namespace %s rollout restart deployment %s\n", plan.CoreDNS.Namespace, plan.CoreDNS.Deployment)
	default:
		fmt.Fprintln(cmd.OutOrStdout(), f.next)
	}
	return nil
}

func printChanges(w io.Writer, cluster string, plan *dns.Plan) {
	if len(plan.Changes) == 0 {
		fmt.Fprintf(w, "%s: nothing to change\n", cluster)
		return
	}
	for _, change := range plan.Changes {
		fmt.Fprintf(w, "%s: %s\n%s\n", cluster, change.Object, change.Diff)
	}
}

type dnsCheck struct {
	dnsFlags
	image  string
	noPods bool
	wait   time.Duration
}

func newDNSCheck() *cobra.Command {
	f := dnsCheck{}
	c := &cobra.Command{
		Use:   "check [NAME...]",
		Short: "Check whether pods resolve names in clusterset.local",
		Long: `Check the configuration of CoreDNS, and whether a pod resolves names in clusterset.local:
the NAMEs, or by default those of imported Services, which must resolve to the addresses
of their ServiceImports.

The command runs a pod in a temporary namespace, unless --no-pods is given. The exit code
is 1 if a name does not resolve, or with --no-pods if CoreDNS does not serve the zone.
--wait waits until all names resolve, as after strait dns configure.`,
		Example: `  strait dns check --context a
  strait dns check --context a --wait
  strait dns check cart.shop.svc.clusterset.local
  strait dns check --no-pods -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.register(c)
	c.Flags().StringVar(&f.image, "image", "", "image of the pod (default: the image of the installed Strait, or "+install.Image+")")
	c.Flags().BoolVar(&f.noPods, "no-pods", false, "run no pods: only read from the API server")
	c.Flags().DurationVar(&f.wait, "wait", 0, "wait until all names resolve, for at most this long")
	c.Flags().Lookup("wait").NoOptDefVal = "3m"
	return c
}

func (f *dnsCheck) run(cmd *cobra.Command, names []string) error {
	if f.noPods && len(names) > 0 {
		return wrongUsage(cmd, "--no-pods resolves no names: leave out %s", names[0])
	}
	for _, name := range names {
		if !strings.HasSuffix(strings.TrimSuffix(name, "."), "."+dns.Zone) {
			return wrongUsage(cmd, "%s is not in %s: write NAME.NAMESPACE.svc.%s", name, dns.Zone, dns.Zone)
		}
	}
	ctx := cmd.Context()
	c, err := f.cluster.choose()
	if err != nil {
		return err
	}
	if failed := unreachable(ctx, c); failed != nil {
		return printFindings(cmd, f.output, failed)
	}
	all := dns.Check(ctx, c, f.coreDNS)
	if f.noPods {
		for i := range all { // no pod shows whether another DNS server serves the zone
			if code := all[i].Code; all[i].Severity == findings.Warning || all[i].Severity == findings.Info {
				all[i] = findings.New(code, findings.Error, all[i].Subject, "%s", all[i].Message)
			}
		}
		return printFindings(cmd, f.output, all)
	}
	if f.image == "" {
		if f.image, err = agents.Image(ctx, c.Client); err != nil {
			f.image = install.Image
		}
	}
	progress := waiting(cmd, 0).Progress
	resolved, err := dns.Resolve(ctx, c, f.image, names, f.wait, progress.Say)
	progress.Done()
	all = append(all, resolved...)
	findings.Sort(all)
	return errors.Join(err, printFindings(cmd, f.output, all))
}
