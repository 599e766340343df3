package main

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/benchmark"
	"strait.dev/strait/operate/operator"
)

type benchPeering struct {
	name             string
	near, far        clusterFlags
	image, namespace string
}

func (f *benchPeering) register(c *cobra.Command) {
	c.Flags().StringVar(&f.name, "peering", "", "`PEERING` to measure between two clusters, instead of this machine")
	f.near.register(c)
	f.far.remote, f.far.required = true, true
	f.far.register(c)
	c.Flags().StringVar(&f.image, "image", "", "image of the pods (default: the image of the installed Strait)")
	c.Flags().StringVar(&f.namespace, "gateway-namespace", install.GatewayNamespace, "namespace of the gateways, in both clusters")
}

// given returns the name of a given flag that needs --peering, empty if there is none.
func (f *benchPeering) given(c *cobra.Command) string {
	for _, name := range []string{"kubeconfig", "context", "remote-kubeconfig", "remote-context", "as", "request-timeout", "image", "gateway-namespace"} {
		if c.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// measurePeering runs the benchmark. An interrupted run is returned with its error.
func (f *benchFlags) measurePeering(ctx context.Context, cmd *cobra.Command) (*result.Run, error) {
	p := &f.peering
	only, err := regexp.Compile(f.tests)
	if err != nil {
		return nil, wrongUsage(cmd, "--run %s: %w", f.tests, wrongPattern(err))
	}
	if !p.far.given() {
		return nil, wrongUsage(cmd, "--peering needs access to both clusters: give --remote-context or --remote-kubeconfig")
	}
	local, remote, err := openBoth(ctx, &p.near, &p.far)
	if err != nil {
		return nil, err
	}
	near, far, err := operator.Pair(ctx, local, *remote, p.name)
	if err != nil {
		return nil, err
	}
	if p.image == "" {
		if p.image, err = agents.Image(ctx, local.Client); err != nil {
			return nil, err
		}
	}
	progress := newProgress(cmd)
	defer progress.Done()
	machine, err := benchmark.Machine(ctx, near, far, thisBuild().Version)
	if err != nil {
		return nil, err
	}
	measured := result.New(strings.Join(append([]string{"strait"}, os.Args[1:]...), " "), machine, time.Now())
	err = benchmark.Run(ctx, near, far, benchmark.Options{
		Image: p.image, GatewayNamespace: p.namespace, Repetitions: f.repetitions, Quick: f.quick, Only: only, Say: progress.Say,
	}, measured)
	if len(measured.Samples) == 0 {
		return nil, errors.Join(err, ctx.Err())
	}
	return measured, err
}
