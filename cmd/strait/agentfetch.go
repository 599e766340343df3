//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

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
