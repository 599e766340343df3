package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/gather"
	"strait.dev/strait/operate/operator"
)

type gatherCommand struct {
	cluster, remote                 clusterFlags
	file, size                      string
	since                           time.Duration
	namespace, gateways, nodeHelper string
}

func newGather() *cobra.Command {
	f := gatherCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "gather",
		Short: "Collect a support bundle",
		Long: `Collect diagnostics of Strait in one or two clusters into one archive, the support
bundle: objects, pods, events and logs of Strait, metrics, the network state of the
nodes' kernels, the state of offloaded pods, and the output of strait status. Its index.html is for a browser and
loads nothing from the network.

The bundle holds no secrets. Fields that may hold one are not copied: the contents of
Secrets and ConfigMaps, environments, annotations. Keys, tokens and invites in logs are
replaced. Names, addresses and public keys stay in it: review it before you share it.

What cannot be read is listed in the bundle, and the exit code is 1 then. The command
runs strait in the pods of Strait, which takes the right to create pods/exec.`,
		Example: `  strait gather --context a
  strait gather --context a --remote-context b --since 24h --file case-4711.tar.gz
  strait gather --file - | tar -tz`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	f.remote.register(c)
	c.Flags().StringVarP(&f.file, "file", "f", "", "file to write the bundle to, or - for standard output (default: strait-gather-TIME.tar.gz)")
	c.Flags().DurationVar(&f.since, "since", time.Hour, "how far back logs go; 0 for all logs")
	c.Flags().StringVar(&f.size, "max-size", "64Mi", "maximum size of the bundle, without its index")
	c.Flags().StringVar(&f.namespace, "namespace", install.Namespace, "namespace of the controller")
	c.Flags().StringVar(&f.gateways, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways")
	c.Flags().StringVar(&f.nodeHelper, "node-namespace", install.NodeNamespace, "namespace of the node helpers")
	return c
}

func (f *gatherCommand) run(cmd *cobra.Command) error {
	size, err := resource.ParseQuantity(f.size)
	if err != nil || size.Value() < 1<<20 {
		return wrongUsage(cmd, "--max-size %s: give 1Mi or more, as in --max-size=64Mi", f.size)
	}
	if f.since < 0 {
		return wrongUsage(cmd, "--since %v: give a positive duration, as in --since=1h", f.since)
	}
	ctx := cmd.Context()
	local, remote, err := chooseBoth(&f.cluster, &f.remote)
	if err != nil {
		return err
	}
	clusters := operator.Clusters(local, remote)
	now := time.Now()
	o := gather.Options{
		Namespaces: []string{f.namespace, f.gateways, f.nodeHelper}, Since: f.since, MaxSize: size.Value(),
		Strait: thisBuild(), Now: now, Root: "strait-gather-" + now.UTC().Format("20060102-150405"),
	}
	progress := newProgress(cmd)
	o.Say = progress.Say
	summary, name, err := f.write(ctx, unescaped(cmd.OutOrStdout()), clusters, o)
	progress.Done()
	if err != nil {
		return err
	}
	if name != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "The support bundle is %s; unpack it and open index.html.\n", name)
	}
	return missing(summary)
}

// write writes the bundle. An incomplete file is removed. Name is that of the file, empty
// for standard output.
func (f *gatherCommand) write(ctx context.Context, stdout io.Writer, clusters []operator.Cluster, o gather.Options) (summary *gather.Summary, name string, err error) {
	if f.file == "-" {
		if isTerminal(stdout) {
			return nil, "", errors.New("a terminal cannot show a bundle: name a file with --file, or pipe the output into another program")
		}
		summary, err = gather.Run(ctx, stdout, clusters, o)
		return summary, "", err
	}
	if name = f.file; name == "" {
		name = o.Root + ".tar.gz"
	}
	if err := checkWritable("--file", name); err != nil {
		return nil, "", err
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part") // readable by its owner only
	if err != nil {
		return nil, "", fileError("--file", name, withoutTemporary(err, name))
	}
	defer os.Remove(file.Name())
	summary, err = gather.Run(ctx, file, clusters, o)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, "", err
	}
	return summary, name, os.Rename(file.Name(), name)
}

// missing returns an error if the bundle is incomplete.
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
	return fmt.Errorf("the bundle is incomplete: see index.html in it for what could not be read:\n%s", strings.Join(all, "\n"))
}

// withoutTemporary is a file error with the name of the file in place of the temporary one.
func withoutTemporary(err error, name string) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: name, Err: at.Err}
	}
	return err
}
