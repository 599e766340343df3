//go:build linux

package main

import (
	"github.com/spf13/cobra"
)

// newAgent is the command of the pods that other commands start (operate/agents). Users do not
// run it.
func newAgent() *cobra.Command {
	c := &cobra.Command{
		Use:    "agent",
		Short:  "Wait in a pod that another command runs",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			<-ctx.Done()
			return nil
		},
	}
	c.AddCommand(newAgentHello(), newAgentCall(), newAgentFetch(), newAgentServe(), newAgentProbe(), newAgentFlow(), newAgentStreams(), newAgentWatch(), newAgentLookup(), newAgentNode(), newAgentCrash())
	return c
}
