package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/uninstall"
)

type uninstallCommand struct {
	cluster   clusterFlags
	prepare   bool
	check     bool
	image     string
	noPods    bool
	dryRun    bool
	consent   consent
	namespace string
	wait      time.Duration
	output    string
}

func newUninstall() *cobra.Command {
	f := uninstallCommand{}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Detach this cluster before uninstalling Strait, or check for leftovers",
		Long: `Uninstall Strait with the tool that installed it:

  helm uninstall strait --namespace strait-system

Before Helm removes anything, the chart runs strait uninstall --prepare in the cluster:
it deletes Peerings and AddressMappings, and waits until their gateways are gone and
every ready node has removed its links, routes, rules and nftables table. Without the
chart, run it before you delete the objects: it asks first, because connections to other
clusters end. Other clusters are not contacted.

Afterwards strait uninstall --check looks for leftovers: objects, and on every node
links, routes, rules and the nftables table. It waits for objects that are being deleted,
and runs pods in a temporary namespace. The exit code is 1 if anything is left, except CRDs
that Helm keeps, as it does by default. Deleting these deletes all their objects:

  kubectl delete crd --selector app.kubernetes.io/part-of=strait

A node that is not ready is reported and not waited for: run strait node --remove on it,
or reboot it.`,
		Example: `  helm uninstall strait --namespace strait-system
  strait uninstall --check --context a
  strait uninstall --prepare --context a
  strait uninstall --prepare --dry-run`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	c.Flags().BoolVar(&f.prepare, "prepare", false, "detach the cluster: delete Peerings and AddressMappings, and clean up the nodes")
	c.Flags().BoolVar(&f.check, "check", false, "look for leftovers of Strait")
	c.Flags().StringVar(&f.image, "image", install.Image, "with --check: image of the pods")
	c.Flags().BoolVar(&f.noPods, "no-pods", false, "with --check: run no pods, and skip the nodes")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "with --prepare: have the API server check the deletions without storing them, print them and exit")
	f.consent.register(c, "with --prepare: delete without asking")
	c.Flags().StringVar(&f.namespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait for gateways and nodes, or with --check for objects that are being deleted")
	outputFlag(c, &f.output)
	return c
}

func (f *uninstallCommand) run(cmd *cobra.Command) error {
	if f.prepare == f.check {
		return wrongUsage(cmd, "Helm removes Strait, with helm uninstall strait --namespace strait-system: give --check to look for leftovers afterwards, or --prepare to detach the cluster before")
	}
	if err := f.consent.check(cmd, f.prepare && !f.dryRun); err != nil {
		return err
	}
	ctx := cmd.Context()
	c, err := f.cluster.choose()
	if err != nil {
		return err
	}
	progress := waiting(cmd, f.wait).Progress
	if f.check {
		if failed := unreachable(ctx, c); failed != nil {
			return printFindings(cmd, f.output, failed)
		}
		if f.noPods {
			f.image = ""
		}
		all, err := uninstall.Check(ctx, c, f.image, f.wait, progress.Say)
		progress.Done()
		return errors.Join(err, printFindings(cmd, f.output, all))
	}
	if err := c.Reach(ctx); err != nil {
		return err
	}
	if err := f.consent.ask(cmd, "Delete all Peerings and AddressMappings in "+c.Name+"? Connections to other clusters end at once."); err != nil {
		return err
	}
	is, err := uninstall.Prepare(ctx, uninstall.Options{Client: c.Client, Gateways: f.namespace, For: f.wait, DryRun: f.dryRun, Say: progress.Say})
	progress.Done()
	text := describePrepared(is, err == nil)
	if f.dryRun {
		text = describeDeletions(is)
	}
	return errors.Join(err, printResult(cmd, f.output, is, "%s", text))
}

func describeDeletions(is *uninstall.Prepared) string {
	var b strings.Builder
	for _, one := range is.Removed {
		fmt.Fprintf(&b, "%s would be deleted\n", one)
	}
	if len(is.Removed) == 0 {
		b.WriteString("no Peering and no AddressMapping would be deleted\n")
	}
	return b.String()
}

func describePrepared(is *uninstall.Prepared, done bool) string {
	var b strings.Builder
	for _, one := range is.Removed {
		fmt.Fprintf(&b, "deleted %s\n", one)
	}
	if len(is.Released) > 0 {
		fmt.Fprintf(&b, "%d nodes are clean: %s\n", len(is.Released), strings.Join(is.Released, ", "))
	}
	for _, node := range is.Lost {
		fmt.Fprintf(&b, "warning: node %s may keep links, routes and rules: %s; when it is ready, run strait node --remove on it, or reboot it\n", node.Name, node.Why)
	}
	if done {
		fmt.Fprintln(&b, "Strait can be uninstalled now: helm uninstall strait --namespace strait-system")
	}
	return b.String()
}
