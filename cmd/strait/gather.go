package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"strait.dev/strait/k8s/gather"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/operator"
)

// gatherCommand is what `strait gather` is told.
type gatherCommand struct {
	cluster, remote                 clusterFlags
	output, size                    string
	since                           time.Duration
	namespace, gateways, nodeHelper string
}

func newGather() *cobra.Command {
	f := gatherCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "gather",
		Short: "Put what there is to know of Strait into an archive, without secrets",
		Long: `Put what there is to know of Strait in one or two clusters into one archive, for
somebody who was not there: objects, pods, events and logs of Strait, metrics, what
the kernels of nodes have, and what strait status says. Its index.html is for a
browser and fetches nothing.

No secret is in it. Of objects only what is known to hold none is copied: no contents
of Secrets and ConfigMaps, no environments, no annotations; keys, tokens and invites
in logs are replaced. Names, addresses and public keys are in it: look through it
before you hand it on.

What cannot be read is listed in the archive, and ends nothing; the exit code is 1
then. Pods are asked by exec, as kubectl exec does.`,
		Example: `  strait gather --context a
  strait gather --context a --remote-context b --since 24h -o case-4711.tar.gz`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	f.remote.register(c)
	c.Flags().StringVarP(&f.output, "output", "o", "", "the archive, or - for standard output (default: strait-gather-TIME.tar.gz)")
	c.Flags().DurationVar(&f.since, "since", time.Hour, "how far back logs go; 0 for all that there is")
	c.Flags().StringVar(&f.size, "max-size", "64Mi", "how large the archive may become, beside its index")
	c.Flags().StringVar(&f.namespace, "namespace", install.Namespace, "namespace of the controller")
	c.Flags().StringVar(&f.gateways, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().StringVar(&f.nodeHelper, "node-namespace", install.NodeNamespace, "namespace of the nodes' helpers")
	return c
}

func (f *gatherCommand) run(cmd *cobra.Command) error {
	size, err := resource.ParseQuantity(f.size)
	if err != nil || size.Value() < 1<<20 {
		return wrongUsage(cmd, "--max-size %s: give 1Mi or more, as in --max-size 64Mi", f.size)
	}
	if f.since < 0 {
		return wrongUsage(cmd, "--since %v: give a time back from now, as in --since 1h", f.since)
	}
	clusters, err := f.clusters()
	if err != nil {
		return err
	}
	now := time.Now()
	o := gather.Options{
		Namespaces: []string{f.namespace, f.gateways, f.nodeHelper}, Since: f.since, MaxSize: size.Value(),
		Strait: thisBuild(), Now: now, Root: "strait-gather-" + now.UTC().Format("20060102-150405"),
	}
	progress := operator.NewProgress(cmd.ErrOrStderr(), isTerminal(cmd.ErrOrStderr()))
	o.Say = progress.Say
	ctx, stop := interruptible(cmd)
	defer stop()
	summary, name, err := f.write(ctx, cmd.OutOrStdout(), clusters, o)
	progress.Done()
	if err != nil {
		return err
	}
	if name != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s is written; unpack it, and begin with index.html.\n", name)
	}
	return missing(summary)
}

// clusters are those to read, one or two.
func (f *gatherCommand) clusters() ([]operator.Cluster, error) {
	local, err := f.cluster.open()
	if err != nil {
		return nil, err
	}
	if !f.remote.given() {
		return []operator.Cluster{local}, nil
	}
	f.remote.beside(f.cluster)
	remote, err := f.remote.open()
	if err != nil {
		return nil, fmt.Errorf("remote cluster: %w", err)
	}
	return []operator.Cluster{local, remote}, nil
}

// write writes the archive, and nothing if it comes to no end. The name is that of the
// file, if it is one.
func (f *gatherCommand) write(ctx context.Context, stdout io.Writer, clusters []operator.Cluster, o gather.Options) (summary *gather.Summary, name string, err error) {
	if f.output == "-" {
		if isTerminal(stdout) {
			return nil, "", errors.New("an archive is nothing for a terminal; name a file with -o, or pipe it on")
		}
		summary, err = gather.Run(ctx, stdout, clusters, o)
		return summary, "", err
	}
	if name = f.output; name == "" {
		name = o.Root + ".tar.gz"
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part") // only its owner may read it
	if err != nil {
		return nil, "", fmt.Errorf("-o %s: %w", name, err)
	}
	defer os.Remove(file.Name())
	summary, err = gather.Run(ctx, file, clusters, o)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, "", err
	}
	return summary, name, os.Rename(file.Name(), name)
}

// missing is the error of an archive that lacks something.
func missing(s *gather.Summary) error {
	var all []string
	for _, c := range s.Clusters {
		if n := len(c.Missing); n > 0 {
			all = append(all, fmt.Sprintf("  %s: %d missing, the first is %s: %s", c.Name, n, c.Missing[0].What, c.Missing[0].Error))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("the archive is written, and lacks what could not be read; its index.html lists that:\n%s", strings.Join(all, "\n"))
}
