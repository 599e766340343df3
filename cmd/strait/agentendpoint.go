//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/internal/endpoint/leak"
)

func newAgentServe() *cobra.Command {
	port := uint16(endpoint.Port)
	c := &cobra.Command{
		Use:     "serve",
		Short:   "Echo over TCP and UDP",
		Example: "  strait agent serve",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			s, err := endpoint.Listen(port)
			if err != nil {
				return err
			}
			return s.Serve(ctx)
		},
	}
	c.Flags().Uint16Var(&port, "port", port, "port to listen on, TCP and UDP")
	return c
}

func newAgentProbe() *cobra.Command {
	return &cobra.Command{
		Use:     "probe",
		Short:   "Run the tests of an order on standard input, and print the results",
		Example: "  strait agent probe < order.json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return order(cmd, false, func(ctx context.Context, o endpoint.Order) (any, error) { return endpoint.Run(ctx, o), nil })
		},
	}
}

func newAgentFlow() *cobra.Command {
	return &cobra.Command{
		Use:     "flow",
		Short:   "Keep a connection busy until the input ends, and print its result",
		Example: "  strait agent flow < order.json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return order(cmd, true, func(ctx context.Context, o endpoint.FlowOrder) (any, error) {
				return endpoint.Flow(ctx, o, ready(cmd)), nil
			})
		},
	}
}

func newAgentStreams() *cobra.Command {
	return &cobra.Command{
		Use:     "streams",
		Short:   "Keep flows busy until the input ends, and print what they have lost for each further line",
		Example: "  strait agent streams < order.json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			var o endpoint.StreamsOrder
			input := json.NewDecoder(cmd.InOrStdin())
			if err := input.Decode(&o); err != nil {
				return fmt.Errorf("read the order from standard input: %w", err)
			}
			ask := make(chan struct{})
			go func() {
				defer cancel()
				var line string
				for input.Decode(&line) == nil {
					select {
					case ask <- struct{}{}:
					case <-ctx.Done():
					}
				}
			}()
			endpoint.Streams(ctx, o, ask, func(r endpoint.StreamsResult) { _ = json.NewEncoder(cmd.OutOrStdout()).Encode(r) })
			return nil
		},
	}
}

func newAgentWatch() *cobra.Command {
	return &cobra.Command{
		Use:     "watch",
		Short:   "Look for unencrypted packets until the input ends, and print them",
		Example: "  strait agent watch < order.json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return order(cmd, true, func(ctx context.Context, o leak.Order) (any, error) {
				return leak.Watch(ctx, o, ready(cmd))
			})
		},
	}
}

// ready returns a function that prints that an agent has begun. Its result follows.
func ready(cmd *cobra.Command) func() { return func() { fmt.Fprintln(cmd.OutOrStdout(), `"ready"`) } }

// order decodes an order from JSON, runs it, and prints the result. With untilEnd, the
// context of do ends with the input.
func order[T any](cmd *cobra.Command, untilEnd bool, do func(context.Context, T) (any, error)) error {
	ctx := cmd.Context()
	var what T
	input := json.NewDecoder(cmd.InOrStdin())
	if err := input.Decode(&what); err != nil {
		return fmt.Errorf("read the order from standard input: %w", err)
	}
	if untilEnd {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			defer cancel()
			_, _ = io.Copy(io.Discard, cmd.InOrStdin()) // only the end of the input matters
		}()
	}
	is, err := do(ctx, what)
	if err != nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(is)
}
