//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/demo"
)

func newDemo() *cobra.Command {
	var output string
	var serve, debug bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Join two simulated clusters in this process",
		Long: `Join two simulated clusters with the same pod CIDR in this process, and test them: ping,
HTTP, a bulk transfer, traceroute and ICMP errors through two real gateways, with the
addresses of a packet at every stage.

The command needs no privilege, changes nothing on the machine, and sends packets only
on loopback.`,
		Example: `  strait demo
  strait demo --serve
  strait demo -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			log := slog.New(slog.DiscardHandler)
			if debug {
				log = newLog(cmd.ErrOrStderr(), slog.LevelDebug)
			}
			d, err := demo.Start(log)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if output == "table" {
				text := &demo.Text{To: out}
				if !debug {
					text.Terminal = terminalOf(out)
				}
				err = demoText(ctx, d, serve, text)
			} else {
				err = demoDocument(ctx, d, serve, output, out)
			}
			return errors.Join(err, d.Close())
		},
	}
	outputFlag(c, &output)
	c.Flags().BoolVar(&serve, "serve", false, "keep both clusters running after the last step, until Ctrl-C or SIGTERM")
	c.Flags().BoolVar(&debug, "debug", false, "log the actions of the gateways")
	return c
}

// demoText runs the demo and prints its steps as text.
func demoText(ctx context.Context, d *demo.Demo, serve bool, t *demo.Text) error {
	t.Introduce(d.Clusters())
	r := d.Run(ctx, t)
	t.Conclude(r)
	failed := verdict(ctx, r)
	if serve && ctx.Err() == nil {
		endpoints, err := d.Serve()
		if err != nil {
			return errors.Join(failed, err)
		}
		t.ShowEndpoints(endpoints)
		<-ctx.Done()
	}
	return failed
}

// demoDocument runs the demo and prints the report as one JSON or YAML document.
func demoDocument(ctx context.Context, d *demo.Demo, serve bool, format string, to io.Writer) error {
	r := d.Run(ctx, demo.Unwatched)
	failed := verdict(ctx, r)
	serve = serve && ctx.Err() == nil
	if serve {
		var err error
		if r.Endpoints, err = d.Serve(); err != nil {
			return errors.Join(failed, err)
		}
	}
	if err := printAs(to, format, r); err != nil {
		return errors.Join(failed, err)
	}
	if serve {
		<-ctx.Done()
	}
	return failed
}

func verdict(ctx context.Context, r *demo.Report) error {
	switch {
	case r.Passed:
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted before the last step")
	}
	return fmt.Errorf("the demo failed at %s: run strait demo --debug for the log of the gateways", strings.Join(r.Failures(), ", "))
}
