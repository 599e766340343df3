package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/verify"
)

type verifyCommand struct {
	local, remote clusterFlags
	options       verify.Options
	pullSecrets   []string
	targets       []string
	short         bool
	disrupt       bool
	consent       consent
	output, junit string
}

func newVerify() *cobra.Command {
	f := verifyCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "verify [PEERING...] --context A [--remote-context B]",
		Short: "Test the connectivity of two joined clusters",
		Long: `Test the connectivity of two joined clusters in both directions: from pods and from the
nodes' network, to pods and to the Services that select them; with TCP, UDP and ICMP
echo; with packets that are small, as large as the path MTU, and larger; with IPv4 and
IPv6; on the gateway's node and on another node. It also tests that servers see the
client's address, that a connection stays open, and that no packet between the clusters
leaves a node unencrypted.

The command runs pods of Strait's own image in both clusters, in namespaces whose names
begin with strait-verify-, and removes them at the end. They need nothing from the
internet. The ordinary pods pass the Pod Security Standard "restricted". The pods that
capture packets use the node's network; where a cluster does not admit them, their tests
are skipped.

With access to one cluster only, the command tests what it can from there: the status of
the objects, whether the nodes reach their gateways, and with --target the mapped
addresses of pods of the other cluster, or with a port an agent that --keep left there.

--disrupt drains, kills and gives new keys to gateways of both clusters, one after the
other, while connections and datagrams cross between pods in both directions. It prints
what each of these flows lost, beside the limits that Strait promises, and asks before it
starts. It takes a few minutes.

--short starts no pods: it reports whether the peerings are ready and whether the nodes
reach their gateways. helm test runs that.

The exit code is 0 if nothing failed and 1 otherwise.`,
		Example: `  strait verify --context a --remote-context b
  strait verify --context a --remote-context b --junit verify.xml -o json
  strait verify --context a --remote-context b --disrupt
  strait verify b --target 10.71.2.9
  strait verify --short`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.local.register(c)
	f.remote.register(c)
	c.Flags().StringSliceVar(&f.targets, "target", nil, "without access to the other cluster: mapped `ADDRESS` of a pod of it, or ADDRESS:PORT of an agent")
	c.Flags().BoolVar(&f.short, "short", false, "start no pods: report the status of the objects")
	c.Flags().BoolVar(&f.disrupt, "disrupt", false, "disrupt the gateways of both clusters, and measure what flows lose")
	f.consent.register(c, "with --disrupt: do not ask")
	c.Flags().BoolVar(&f.options.Keep, "keep", false, "keep the pods until the next run")
	c.Flags().StringVar(&f.options.Image, "image", "", "image of the pods (default: the image of the installed Strait)")
	c.Flags().StringVar(&f.options.RemoteImage, "remote-image", "", "image of the pods in the remote cluster (default: that of --image)")
	c.Flags().StringSliceVar(&f.pullSecrets, "image-pull-secret", nil, "`NAME` of a Secret to pull the image with, in the namespaces of the pods")
	c.Flags().StringVar(&f.junit, "junit", "", "`FILE` to write the result to, as JUnit XML")
	outputFlag(c, &f.output)
	return c
}

// errVerify is the error of a run, which is printed already, with a failed test.
var errVerify = errors.New("tests failed: do what the table says")

func (f *verifyCommand) run(cmd *cobra.Command, names []string) error {
	both := f.remote.given()
	switch {
	case both && f.short:
		return wrongUsage(cmd, "--short tests one cluster: leave out --remote-context or --short")
	case both && len(f.targets) > 0:
		return wrongUsage(cmd, "--target is for access to one cluster: leave it out, since --remote-context starts pods in the other")
	case f.short && len(f.targets) > 0:
		return wrongUsage(cmd, "--short starts no pod that could test a --target: leave one of them out")
	case f.disrupt && !both:
		return wrongUsage(cmd, "--disrupt measures flows between two clusters: add --remote-context")
	case f.disrupt && (f.junit != "" || f.options.Keep):
		return wrongUsage(cmd, "--disrupt goes neither with --junit nor with --keep")
	case f.consent.yes && !f.disrupt:
		return wrongUsage(cmd, "--yes is for --disrupt: nothing else is asked")
	case both && len(names) > 1:
		return wrongUsage(cmd, "two clusters are joined by one Peering: name one, or none")
	}
	if err := f.consent.check(cmd, f.disrupt); err != nil {
		return err
	}
	if err := checkWritable("--junit", f.junit); err != nil {
		return err
	}
	targets, err := parseTargets(cmd, f.targets)
	if err != nil {
		return err
	}
	for _, name := range f.pullSecrets {
		f.options.PullSecrets = append(f.options.PullSecrets, corev1.LocalObjectReference{Name: name})
	}
	ctx := cmd.Context()
	local, remote, err := openBoth(ctx, &f.local, &f.remote)
	if err != nil {
		return err
	}
	if err := f.consent.ask(cmd, "Drain, kill and give new keys to gateways of both clusters?"); err != nil {
		return err
	}
	progress := newProgress(cmd)
	var mu sync.Mutex // agents of two clusters start at once, and repeat what they wait for
	said := map[string]bool{}
	f.options.Say = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[line] {
			said[line] = true
			progress.Say(line)
		}
	}
	if f.disrupt {
		report, err := verify.Disrupt(ctx, local, *remote, slices.Concat(names, []string{""})[0], f.options)
		progress.Done()
		return f.printDisrupted(cmd, report, err)
	}
	report, err := f.verify(ctx, local, remote, names, targets)
	progress.Done()
	if report != nil {
		err = errors.Join(err, f.print(cmd, report))
	}
	if err == nil && !report.Passed {
		return errVerify
	}
	return err
}

// errDisrupted is the error of a run, which is printed already, in which flows lost more than
// they may.
var errDisrupted = errors.New("flows lost more than the limit: see docs/how-to/verify.md#disrupt")

func (f *verifyCommand) printDisrupted(cmd *cobra.Command, r *verify.DisruptReport, err error) error {
	if r == nil {
		return err
	}
	err = errors.Join(err, printReport(cmd, f.output, r, r.Table))
	if err == nil && !r.Passed {
		return errDisrupted
	}
	return err
}

func (f *verifyCommand) verify(ctx context.Context, local operator.Cluster, remote *operator.Cluster, names []string, targets []netip.AddrPort) (*verify.Report, error) {
	switch {
	case f.short:
		return verify.Short(ctx, local, names)
	case remote == nil:
		return verify.OneSide(ctx, local, names, targets, f.options)
	}
	return verify.Run(ctx, local, *remote, slices.Concat(names, []string{""})[0], f.options)
}

// print writes a report to standard output and to the file of --junit.
func (f *verifyCommand) print(cmd *cobra.Command, r *verify.Report) (err error) {
	if f.junit != "" {
		file, e := os.Create(f.junit)
		if e == nil {
			e = errors.Join(r.JUnit(file), file.Close())
		}
		if e != nil {
			err = fileError("--junit", f.junit, e)
		}
	}
	return errors.Join(err, printReport(cmd, f.output, r, r.Table))
}

// parseTargets parses addresses with or without a port. Without one, the port is 0.
func parseTargets(cmd *cobra.Command, texts []string) (all []netip.AddrPort, err error) {
	for _, text := range texts {
		to, err := netip.ParseAddrPort(text)
		if address, e := netip.ParseAddr(text); e == nil {
			to, err = netip.AddrPortFrom(address, 0), nil
		}
		if err != nil || to.Addr().Zone() != "" {
			return nil, wrongUsage(cmd, "--target %q: write an address like 10.71.2.9, or an address with a port like 10.71.2.9:6099 or [fd00:71::9]:6099", text)
		}
		all = append(all, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	}
	return all, nil
}
