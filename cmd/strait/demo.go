package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/internal/demo"
)

func newDemo() *cobra.Command {
	var output string
	var serve, debug bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Join two clusters in this process and show that it works",
		Long: `Join two clusters with the same pod CIDRs inside this process and show that it
works: ping, HTTP, a bulk transfer, traceroute and ICMP errors across two real
gateways, with the addresses of a packet at every stage.

It needs no privilege, changes nothing on the machine, and sends nothing beyond
loopback.`,
		Example: `  strait demo
  strait demo --serve
  strait demo -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "" && output != "json" && output != "yaml" {
				return &usageError{fmt.Errorf("-o %s: no such format; choose json or yaml", output), "strait demo --help"}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			log := slog.New(slog.DiscardHandler)
			if debug {
				log = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelDebug}))
			}
			d, err := demo.Start(log)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if output == "" {
				err = demoText(ctx, d, serve, &demo.Text{To: out, Terminal: isTerminal(out) && !debug})
			} else {
				err = demoDocument(ctx, d, serve, output, out)
			}
			return errors.Join(err, d.Close())
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "json or yaml instead of text")
	c.Flags().BoolVar(&serve, "serve", false, "keep both clusters running after the last step, until Ctrl-C or SIGTERM")
	c.Flags().BoolVar(&debug, "debug", false, "log what the gateways do")
	return c
}

// demoText runs the demo for a person.
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

// demoDocument runs the demo for a program: it prints the report as one document.
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
	text, err := json.MarshalIndent(r, "", "  ")
	if format == "yaml" {
		text, err = yaml.Marshal(r)
	}
	if err != nil {
		return errors.Join(failed, err)
	}
	if _, err := fmt.Fprintln(to, strings.TrimSuffix(string(text), "\n")); err != nil {
		return errors.Join(failed, err)
	}
	if serve {
		<-ctx.Done()
	}
	return failed
}

// verdict is the error that a run ends with.
func verdict(ctx context.Context, r *demo.Report) error {
	switch {
	case r.Passed:
		return nil
	case ctx.Err() != nil:
		return errors.New("interrupted before the last step")
	}
	return fmt.Errorf("the demo failed at %s; see what the gateways say with: strait demo --debug", strings.Join(r.Failures(), ", "))
}

// isTerminal reports whether a person looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
