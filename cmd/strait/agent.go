package main

import (
	"github.com/spf13/cobra"
)

// newAgent is what runs in the pods that commands start for themselves (k8s/agents). It is
// no verb for people.
func newAgent() *cobra.Command {
	c := &cobra.Command{
		Use:    "agent",
		Short:  "Idle in a pod that a command of Strait runs",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			<-ctx.Done()
			return nil
		},
	}
	c.AddCommand(newAgentHello(), newAgentCall(), newAgentFetch(), newAgentServe(), newAgentProbe(), newAgentFlow(), newAgentWatch(), newAgentNode())
	return c
}
