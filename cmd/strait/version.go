package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
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

// versionLine is what `strait --version` prints.
func versionLine() string {
	b := thisBuild()
	return fmt.Sprintf("strait %s (%s, %s)", b.Version, b.Go, b.Platform)
}

func newVersion() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version of strait",
		Example: "  strait version -o json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(cmd, output); err != nil {
				return err
			}
			if output != "table" {
				return printAs(cmd.OutOrStdout(), output, thisBuild())
			}
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
	outputFlag(c, &output)
	return c
}
