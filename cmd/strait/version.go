package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// version is set by the linker for releases.
var version = "dev"

// build is what a binary knows of itself.
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

func newVersion() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  strait version -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b := thisBuild()
			var text []byte
			var err error
			switch output {
			case "":
				text = fmt.Appendf(nil, "strait %s (%s, %s)", b.Version, b.Go, b.Platform)
			case "json":
				text, err = json.MarshalIndent(b, "", "  ")
			case "yaml":
				text, err = yaml.Marshal(b)
			default:
				return &usageError{fmt.Errorf("-o %s: no such format; choose json or yaml", output), "strait version --help"}
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), string(text))
			return err
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "json or yaml instead of a line")
	return c
}
