package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/uninstall"
)

// uninstallCommand is what `strait uninstall` is told.
type uninstallCommand struct {
	cluster   clusterFlags
	prepare   bool
	check     bool
	image     string
	noPods    bool
	namespace string
	wait      time.Duration
	output    string
}

func newUninstall() *cobra.Command {
	f := uninstallCommand{}
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Let go of a cluster before Strait is removed from it, and look for what is left",
		Long: `Strait is removed by whoever installed it:

  helm uninstall strait --namespace strait-system

Before Helm removes anything, the chart runs strait uninstall --prepare in the
cluster: it removes Peerings and AddressMappings, and waits until their gateways are
gone and every node that is ready has let go of links, routes, rules and the nftables
table. Without the chart, run it yourself first. The other clusters are not asked.

Afterwards strait uninstall --check looks for what is left: objects, and on every node
links, routes, rules and the nftables table. It runs pods for that, in a namespace that
it removes again, and ends with 1 if there is anything.

A node that is not ready is told of, and not waited for: run strait node --remove on
it, or start it anew.`,
		Example: `  helm uninstall strait --namespace strait-system
  strait uninstall --check --context a
  strait uninstall --prepare --context a`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	c.Flags().BoolVar(&f.prepare, "prepare", false, "make the cluster let go of Strait")
	c.Flags().BoolVar(&f.check, "check", false, "look for what is left of Strait")
	c.Flags().StringVar(&f.image, "image", install.Image, "with --check: image of the pods")
	c.Flags().BoolVar(&f.noPods, "no-pods", false, "with --check: run no pods, and do not look at nodes")
	c.Flags().StringVar(&f.namespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().DurationVar(&f.wait, "wait", 2*time.Minute, "how long to wait for gateways and nodes")
	c.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	return c
}

func (f *uninstallCommand) run(cmd *cobra.Command) error {
	if err := checkOutput(cmd, f.output, "text", "json"); err != nil {
		return err
	}
	if err := checkWait(cmd, f.wait); err != nil {
		return err
	}
	if f.prepare == f.check {
		return wrongUsage(cmd, "Helm removes Strait: helm uninstall strait --namespace strait-system; to look for what is left afterwards, give --check; to do by hand what has to come before, --prepare")
	}
	c, err := f.cluster.open()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	progress := waiting(cmd, f.wait).Progress
	if f.check {
		if f.noPods {
			f.image = ""
		}
		all, err := uninstall.Check(ctx, c, f.image, progress.Say)
		progress.Done()
		return errors.Join(err, printFindings(cmd, strings.Replace(f.output, "text", "table", 1), all))
	}
	is, err := uninstall.Prepare(ctx, uninstall.Options{Client: c.Client, Gateways: f.namespace, For: f.wait, Say: progress.Say})
	progress.Done()
	if f.output == "json" {
		return errors.Join(err, printAs(cmd.OutOrStdout(), "json", is))
	}
	return errors.Join(err, tellPrepared(cmd.OutOrStdout(), is, err == nil))
}

// tellPrepared writes what a preparation came to, for people.
func tellPrepared(w io.Writer, is *uninstall.Prepared, done bool) error {
	var b strings.Builder
	for _, one := range is.Removed {
		fmt.Fprintf(&b, "removed %s\n", one)
	}
	if len(is.Released) > 0 {
		fmt.Fprintf(&b, "nothing of Strait is left on %d nodes: %s\n", len(is.Released), strings.Join(is.Released, ", "))
	}
	for _, node := range is.Lost {
		fmt.Fprintf(&b, "warning: node %s may keep links, routes and rules: %s; when it is back, run strait node --remove on it, or start it anew\n", node.Name, node.Why)
	}
	if done {
		fmt.Fprintln(&b, "Strait can be removed now: helm uninstall strait --namespace strait-system")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
