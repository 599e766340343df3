package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/operator"
)

// version is set by the linker in builds of the Makefile.
var version = unversioned

const unversioned = "dev"

// build describes a binary.
type build struct {
	Version   string `json:"version"`
	Revision  string `json:"revision,omitempty"`
	WireGuard string `json:"wireguard,omitempty"` // version of wireguard-go
	Netstack  string `json:"netstack,omitempty"`  // version of gVisor
	Go        string `json:"go"`
	Platform  string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = versionOf(version, info.Main.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	for _, d := range info.Deps {
		switch d.Path {
		case "golang.zx2c4.com/wireguard":
			b.WireGuard = d.Version
		case "gvisor.dev/gvisor":
			b.Netstack = d.Version
		}
	}
	return b
}

// versionOf returns the version of a build from what the linker set and the version of its
// module, which `go install PACKAGE@VERSION` records.
func versionOf(linked, module string) string {
	if linked == unversioned && module != "" && module != "(devel)" {
		return module
	}
	return linked
}

func versionLine() string {
	b := thisBuild()
	return fmt.Sprintf("strait %s (%s, %s)", b.Version, b.Go, b.Platform)
}

type versionCommand struct {
	cluster, remote clusterFlags
	client          bool
	output          string
}

// versions are what `strait version` prints as JSON.
type versions struct {
	build
	Clusters []*operator.Versions `json:"clusters,omitempty"`
}

func newVersion() *cobra.Command {
	f := versionCommand{remote: clusterFlags{remote: true}}
	c := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of strait and of its parts in clusters",
		Long: `Print the version of this program, and those of the controller, the gateways, the node
helpers and the agents of offloading in the cluster: which version each is to run, and how
many of its pods do.

Without a context, only the version of this program is printed.`,
		Example: `  strait version
  strait version --client -o json
  strait version --context a --remote-context b`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.cluster.register(c)
	f.remote.register(c)
	c.Flags().BoolVar(&f.client, "client", false, "print only the version of this program")
	for _, name := range []string{"context", "kubeconfig", "remote-context", "remote-kubeconfig"} {
		c.MarkFlagsMutuallyExclusive("client", name)
	}
	outputFlag(c, &f.output)
	return c
}

func (f *versionCommand) run(cmd *cobra.Command) error {
	v := versions{build: thisBuild()}
	var err error
	if !f.client {
		v.Clusters, err = f.read(cmd)
	}
	if f.output != "table" {
		return errors.Join(printAs(cmd.OutOrStdout(), f.output, v), err)
	}
	_, printed := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
	return errors.Join(printed, operator.VersionsTable(cmd.OutOrStdout(), v.Clusters), err)
}

// read reads the versions in the selected clusters. That there is no context to select is a
// note, not an error.
func (f *versionCommand) read(cmd *cobra.Command) (all []*operator.Versions, err error) {
	ctx := cmd.Context()
	local, remote, err := chooseBoth(&f.cluster, &f.remote)
	if none := new(client.NoContextError); errors.As(err, &none) && !f.cluster.given() && !f.remote.given() {
		printError(cmd.ErrOrStderr(), fmt.Errorf("the versions in a cluster are not shown: %w", err))
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	clusters := operator.Clusters(local, remote)
	for _, c := range clusters {
		failed := c.Reach(ctx)
		var v *operator.Versions
		if failed == nil {
			v, failed = operator.ReadVersions(ctx, c)
		}
		if failed == nil {
			all = append(all, v)
		}
		err = errors.Join(err, failed)
	}
	return all, err
}
