package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/operator"
	"strait.dev/strait/k8s/verify"
)

// verifyCommand is what `strait verify` is told.
type verifyCommand struct {
	local, remote clusterFlags
	options       verify.Options
	pullSecrets   []string
	targets       []string
	short         bool
	output, junit string
}

func newVerify() *cobra.Command {
	f := verifyCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "verify [PEERING...] --context A [--remote-context B]",
		Short: "Try whether two joined clusters reach each other in every way",
		Long: `Try whether two joined clusters reach each other, both ways: from pods and from the
network of nodes, to pods and to Services that stand for them, with TCP, UDP and
pings, small, as large as the peering carries, and larger; with IPv4 and IPv6; on the
gateway's node and on another. Whether servers see the address of who calls, whether
a connection lasts, and whether nothing of all that leaves a node in the clear.

It runs pods of Strait's own image in both clusters, in namespaces that begin with
strait-verify-, and removes them at the end. They need nothing from the internet. Those
that are ordinary pods pass the Pod Security Standard restricted; those that look at
packets are in the network of their nodes, and where a cluster allows none of them,
what they were for is left out.

With access to one cluster only, it tries what can be tried from there: what the
objects say, whether the nodes reach their gateways, and with --target the addresses of
pods of the other cluster as they are seen here; with a port, an agent that was kept
over there with --keep.

With --short it starts nothing, and says whether the peerings are ready and the nodes
reach their gateways: that is what helm test runs.

It ends with 0 if nothing failed, and with 1 if something did.`,
		Example: `  strait verify --context a --remote-context b
  strait verify --context a --remote-context b --junit verify.xml -o json
  strait verify b --target 10.71.2.9
  strait verify --short`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.local.register(c)
	f.remote.register(c)
	c.Flags().StringSliceVar(&f.targets, "target", nil, "without access to the other cluster: `ADDRESS` of a pod there, as it is seen here, or ADDRESS:PORT of an agent")
	c.Flags().BoolVar(&f.short, "short", false, "start nothing, and see what the objects say")
	c.Flags().BoolVar(&f.options.Keep, "keep", false, "keep the pods; the next run removes them")
	c.Flags().StringVar(&f.options.Image, "image", "", "image of the pods (default: that of the installed Strait)")
	c.Flags().StringVar(&f.options.RemoteImage, "remote-image", "", "image of the pods in the remote cluster (default: as --image)")
	c.Flags().StringSliceVar(&f.pullSecrets, "image-pull-secret", nil, "`NAME` of a Secret for pulling the image, in the pods' own namespaces")
	c.Flags().StringVar(&f.junit, "junit", "", "`FILE` to write the result to as JUnit's XML")
	c.Flags().StringVarP(&f.output, "output", "o", "table", "table or json")
	return c
}

// errVerify is the end of a run in which something failed. It was printed.
var errVerify = errors.New("something failed; what, and what to do about it, stands above")

func (f *verifyCommand) run(cmd *cobra.Command, names []string) error {
	if err := checkOutput(cmd, f.output, "table", "json"); err != nil {
		return err
	}
	both := f.remote.given()
	switch {
	case both && f.short:
		return wrongUsage(cmd, "--short looks at one cluster; leave out --remote-context, or --short")
	case both && len(f.targets) > 0:
		return wrongUsage(cmd, "--target is for one cluster; with --remote-context pods are started there")
	case f.short && len(f.targets) > 0:
		return wrongUsage(cmd, "--short starts nothing that could try a --target; leave one of them out")
	case both && len(names) > 1:
		return wrongUsage(cmd, "two clusters are joined by one Peering; name one, or none")
	}
	targets, err := parseTargets(cmd, f.targets)
	if err != nil {
		return err
	}
	for _, name := range f.pullSecrets {
		f.options.PullSecrets = append(f.options.PullSecrets, corev1.LocalObjectReference{Name: name})
	}
	local, err := f.local.open()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	progress := operator.NewProgress(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))
	var mu sync.Mutex // agents of two clusters start at once, and wait for the same again and again
	said := map[string]bool{}
	f.options.Say = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[line] {
			said[line] = true
			progress.Say(line)
		}
	}
	report, err := f.verify(ctx, local, names, targets)
	progress.Done()
	if report != nil {
		err = errors.Join(err, f.print(cmd, report))
	}
	if err == nil && !report.Passed {
		return errVerify
	}
	return err
}

func (f *verifyCommand) verify(ctx context.Context, local operator.Cluster, names []string, targets []netip.AddrPort) (*verify.Report, error) {
	switch {
	case f.short:
		return verify.Short(ctx, local, names)
	case !f.remote.given():
		return verify.OneSide(ctx, local, names, targets, f.options)
	}
	f.remote.beside(f.local)
	remote, err := f.remote.open()
	if err != nil {
		return nil, fmt.Errorf("remote cluster: %w", err)
	}
	return verify.Run(ctx, local, remote, slices.Concat(names, []string{""})[0], f.options)
}

// print writes a report wherever it is wanted.
func (f *verifyCommand) print(cmd *cobra.Command, r *verify.Report) (err error) {
	if f.junit != "" {
		file, e := os.Create(f.junit)
		if e == nil {
			e = errors.Join(r.JUnit(file), file.Close())
		}
		if e != nil {
			err = fmt.Errorf("--junit: %w", e)
		}
	}
	if f.output == "json" {
		return errors.Join(err, printAs(cmd.OutOrStdout(), "json", r))
	}
	return errors.Join(err, r.Table(cmd.OutOrStdout()))
}

// parseTargets reads addresses; port 0 is none.
func parseTargets(cmd *cobra.Command, texts []string) (all []netip.AddrPort, err error) {
	for _, text := range texts {
		to, err := netip.ParseAddrPort(text)
		if address, e := netip.ParseAddr(text); e == nil {
			to, err = netip.AddrPortFrom(address, 0), nil
		}
		if err != nil || to.Addr().Zone() != "" {
			return nil, wrongUsage(cmd, "--target %q: write an address like 10.71.2.9, or with a port 10.71.2.9:6099, [fd00:71::9]:6099", text)
		}
		all = append(all, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	}
	return all, nil
}
