package main

import (
	"time"

	"github.com/spf13/cobra"

	"strait.dev/strait/operate/operator"
)

type rotateKeysCommand struct {
	cluster clusterFlags
	dry     dryRun
	wait    time.Duration
	output  string
}

func newRotateKeys() *cobra.Command {
	f := rotateKeysCommand{}
	c := &cobra.Command{
		Use:   "rotate-keys PEERING",
		Short: "Replace the WireGuard keys of a peering's gateways",
		Long: `Raise spec.gateway.keyGeneration of a Peering, and wait until each of its gateways uses
a new key pair. No packet is lost: the remote cluster learns the new public keys through
the tunnel, and the old keys are used until then. The keys of the remote cluster's
gateways stay; to replace them too, run the command there.

A rotation that has not ended is waited for; no other one is begun. Where the Peering is
kept in Git, raise the field there instead.`,
		Example: `  strait rotate-keys b
  strait rotate-keys b --context a --wait 10m
  strait rotate-keys b --dry-run`,
		Args: arguments("the name of the Peering"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.cluster.register(c)
	f.dry.register(c)
	c.Flags().DurationVar(&f.wait, "wait", 5*time.Minute, "how long to wait until the new keys are used")
	outputFlag(c, &f.output)
	return c
}

func (f *rotateKeysCommand) run(cmd *cobra.Command, name string) error {
	if err := operator.CheckName(name); err != nil {
		return wrongUsage(cmd, "%w", err)
	}
	ctx := cmd.Context()
	c, err := f.cluster.open(ctx)
	if err != nil {
		return err
	}
	f.dry.apply(&c)
	rotated, err := operator.RotateKeys(ctx, c, name, f.dry.waiting(cmd, f.wait))
	if f.dry.on {
		return f.dry.print(cmd, f.output, err)
	}
	if err != nil {
		return resumable(err)
	}
	return printResult(cmd, f.output, rotated, "%s: the gateways of Peering %s use keys of generation %d.\n", c.Name, name, rotated.KeyGeneration)
}
