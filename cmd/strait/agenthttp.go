//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
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

// newAgentCall is the client of newAgentHello, for pods: the image has no other HTTP client.
func newAgentCall() *cobra.Command {
	var patience time.Duration
	c := &cobra.Command{
		Use:     "call URL",
		Short:   "Print the response of an HTTP server",
		Long:    `Print the response of an HTTP server. The exit code is 1 unless the status is 200.`,
		Example: "  strait agent call http://10.71.2.9:8080/",
		Args:    arguments("the URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			ctx, cancel := context.WithTimeout(ctx, patience)
			defer cancel()
			return call(ctx, args[0], unescaped(cmd.OutOrStdout()))
		},
	}
	c.Flags().DurationVar(&patience, "for", 10*time.Second, "how long to try")
	return c
}

// call repeats the request until it succeeds: the endpoint of a Service may not be ready yet. If ctx
// ends first, the error is that of the last complete attempt.
func call(ctx context.Context, url string, to io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // without a proxy
	var failed error
	for {
		answer, err := client.Do(request)
		if err != nil && (ctx.Err() == nil || failed == nil) {
			failed = err
		}
		if err == nil {
			defer answer.Body.Close()
			_, err = io.Copy(to, answer.Body)
			if err == nil && answer.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s answers %s", url, answer.Status)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return failed
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// newAgentFetch prints a page that a program of Strait serves inside its own pod, for
// commands that exec it there, so that metrics need no reachable port.
func newAgentFetch() *cobra.Command {
	return &cobra.Command{
		Use:    "fetch URL",
		Short:  "Print a page that this pod or node serves over HTTP",
		Hidden: true,
		Args:   arguments("the address of the page"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOwn(args[0]); err != nil {
				return wrongUsage(cmd, "%v", err)
			}
			c := http.Client{Timeout: 10 * time.Second}
			answer, err := c.Get(args[0])
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("%s answers %s", args[0], answer.Status)
			}
			_, err = io.Copy(unescaped(cmd.OutOrStdout()), answer.Body)
			return err
		},
	}
}

// checkOwn rejects URLs of other hosts, so that the command is no proxy.
func checkOwn(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return err
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	host := net.ParseIP(u.Hostname())
	if u.Scheme != "http" || host == nil || !host.IsLoopback() && !slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(host)
	}) {
		return fmt.Errorf("%s is not served by this pod: write http://127.0.0.1:PORT/PAGE", text)
	}
	return nil
}
