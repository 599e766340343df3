package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// linuxOnly returns the command that stands for one of Linux on other platforms: it says so,
// whatever its arguments are.
func linuxOnly(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short + " (needs Linux)",
		Example:            "  strait " + name,
		Args:               cobra.ArbitraryArgs,
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		RunE:               func(cmd *cobra.Command, _ []string) error { return needsLinux(cmd.CommandPath()) },
	}
}

// needsLinux returns the error of a command line that this platform does not have.
func needsLinux(commandLine string) error {
	return fmt.Errorf("%s needs Linux, not %s: run it in a container", commandLine, runtime.GOOS)
}
