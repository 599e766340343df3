//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"

	"github.com/spf13/cobra"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/internal/endpoint/leak"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/dns"
)

// newAgent is the command of the pods that other commands start (operate/agents). Users do not
// run it.
func newAgent() *cobra.Command {
	c := agentCommand("agent", "Wait in a pod that another command runs", "", func(cmd *cobra.Command) error {
		<-cmd.Context().Done()
		return nil
	})
	c.Hidden, c.Example = true, ""
	lookup := agentCommand("lookup NAME...", "Resolve names with the DNS server of this pod, and print the answers", "lookup cart.shop.svc.clusterset.local", nil)
	lookup.Args = atLeastOne("the name")
	lookup.RunE = func(cmd *cobra.Command, names []string) error {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(dns.Lookup(cmd.Context(), names))
	}
	c.AddCommand(newAgentHello(), newAgentCall(), newAgentFetch(), newAgentServe(), lookup,
		agentCommand("probe", "Run the tests of an order on standard input, and print the results", "probe < order.json", func(cmd *cobra.Command) error {
			return order(cmd, func(ctx context.Context, o endpoint.Order, _ *json.Decoder) (any, error) {
				return endpoint.Run(ctx, o), nil
			})
		}),
		agentCommand("flow", "Keep a connection busy until the input ends, and print its result", "flow < order.json", func(cmd *cobra.Command) error {
			return order(cmd, func(ctx context.Context, o endpoint.FlowOrder, input *json.Decoder) (any, error) {
				return endpoint.Flow(untilEnd(ctx, input, func() {}), o, ready(cmd)), nil
			})
		}),
		agentCommand("streams", "Keep flows busy until the input ends, and print what they have lost for each further line", "streams < order.json", func(cmd *cobra.Command) error {
			return order(cmd, func(ctx context.Context, o endpoint.StreamsOrder, input *json.Decoder) (any, error) {
				ask := make(chan struct{})
				ctx = untilEnd(ctx, input, func() {
					select {
					case ask <- struct{}{}:
					case <-ctx.Done():
					}
				})
				endpoint.Streams(ctx, o, ask, func(r endpoint.StreamsResult) { _ = json.NewEncoder(cmd.OutOrStdout()).Encode(r) })
				return nil, nil
			})
		}),
		agentCommand("watch", "Look for unencrypted packets until the input ends, and print them", "watch < order.json", func(cmd *cobra.Command) error {
			return order(cmd, func(ctx context.Context, o leak.Order, input *json.Decoder) (any, error) {
				return leak.Watch(untilEnd(ctx, input, func() {}), o, ready(cmd))
			})
		}),
		agentCommand("node", "Inspect the node for Strait's requirements and leftovers, and print the result", "node", func(cmd *cobra.Command) error {
			k, err := node.Open()
			if err != nil {
				return err
			}
			defer k.Close()
			is, err := k.Inspect()
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(is)
		}),
		agentCommand("crash", "Make the main process of this container crash, as strait verify --disrupt does", "crash", func(*cobra.Command) error {
			// The kernel delivers no SIGKILL from inside the container; the runtime of Go ends a
			// program at once on SIGABRT.
			if err := syscall.Kill(1, syscall.SIGABRT); err != nil {
				return fmt.Errorf("signal process 1: %w", err)
			}
			return nil
		}))
	return c
}

// agentCommand returns a command of agents without arguments.
func agentCommand(use, short, example string, run func(*cobra.Command) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: "  strait agent " + example, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd) },
	}
}

func newAgentServe() *cobra.Command {
	port := uint16(endpoint.Port)
	c := agentCommand("serve", "Echo over TCP and UDP", "serve", func(cmd *cobra.Command) error {
		s, err := endpoint.Listen(port)
		if err != nil {
			return err
		}
		return s.Serve(cmd.Context())
	})
	c.Flags().Uint16Var(&port, "port", port, "port to listen on, TCP and UDP")
	return c
}

// ready returns a function that prints that an agent has begun. Its result follows.
func ready(cmd *cobra.Command) func() { return func() { fmt.Fprintln(cmd.OutOrStdout(), `"ready"`) } }

// order decodes an order from JSON, runs it, and prints the result, if there is one.
func order[T any](cmd *cobra.Command, do func(ctx context.Context, what T, input *json.Decoder) (any, error)) error {
	var what T
	input := json.NewDecoder(cmd.InOrStdin())
	if err := input.Decode(&what); err != nil {
		return fmt.Errorf("read the order from standard input: %w", err)
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	is, err := do(ctx, what, input)
	if err != nil || is == nil {
		return err
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(is)
}

// untilEnd returns a context that ends with the input, and calls a function for each value in it.
func untilEnd(ctx context.Context, input *json.Decoder, each func()) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		for value := (json.RawMessage{}); input.Decode(&value) == nil; {
			each()
		}
	}()
	return ctx
}
