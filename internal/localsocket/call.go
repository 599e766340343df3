package localsocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// Call posts to a path of a gateway's local socket and returns the response body, which the caller closes. Errors contain the
// gateway's message, or why it cannot be reached.
func Call(ctx context.Context, socket, path string, body io.Reader) (io.ReadCloser, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway"+path, body)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("the gateway's socket %s: permission denied; run this as the gateway's own user", socket)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("no gateway listens on %s; start one with --socket %s, or give the socket of a running gateway", socket, socket)
	case err != nil:
		return nil, fmt.Errorf("the gateway's socket %s: %w", socket, err)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 4096))
		if answer.StatusCode == http.StatusNotFound {
			text = []byte("it does not support " + path + "; use the strait of the gateway's own version")
		}
		return nil, fmt.Errorf("gateway: %s", strings.TrimSpace(string(text)))
	}
	return answer.Body, nil
}
