//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

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
