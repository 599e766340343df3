//go:build linux

package main

import (
	"fmt"
	"syscall"

	"github.com/spf13/cobra"
)

func newAgentCrash() *cobra.Command {
	return &cobra.Command{
		Use:     "crash",
		Short:   "Make the main process of this container crash, as strait verify --disrupt does",
		Example: "  strait agent crash",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			// The kernel delivers no SIGKILL from inside the container; the runtime of Go ends a
			// program at once on SIGABRT.
			if err := syscall.Kill(1, syscall.SIGABRT); err != nil {
				return fmt.Errorf("signal process 1: %w", err)
			}
			return nil
		},
	}
}
