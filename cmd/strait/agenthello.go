//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
)

// newAgentHello is an HTTP server for tests of a peering: it returns the client's address.
func newAgentHello() *cobra.Command {
	var listen string
	var drain time.Duration
	c := &cobra.Command{
		Use:   "hello",
		Short: "Serve the server's and the client's address over HTTP",
		Long: `Serve a line of text over HTTP with the name and address of the server and the address of
the client.

Clients of a Service may still connect just after its pod began to end. With --drain, the server answers
them.`,
		Example: "  strait agent hello --listen :8080 --drain 5s",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			listener, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			return serveHello(ctx, listener, drain)
		},
	}
	c.Flags().DurationVar(&drain, "drain", 0, "how long to answer after the signal to end")
	c.Flags().StringVar(&listen, "listen", ":8080", "address to listen on")
	return c
}

// serveHello answers until the drain time after ctx ends. It closes the listener.
func serveHello(ctx context.Context, listener net.Listener, drain time.Duration) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
			fmt.Fprintf(w, "hello from %s at %v; you are %s\n", name, local, r.RemoteAddr)
		}),
	}
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(drain, func() { _ = server.Close() })
	})()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
