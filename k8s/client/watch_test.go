package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

func TestF6_AWatchThatCouldNotBeginIsNotRetried(t *testing.T) {
	reset := RoundTripper(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET })
	refused := RoundTripper(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED })
	busy := RoundTripper(func(*http.Request) (*http.Response, error) {
		answer := httptest.NewRecorder()
		answer.Header().Set("Retry-After", "1")
		answer.WriteHeader(http.StatusServiceUnavailable)
		return answer.Result(), nil
	})
	const list, watch = "/api/v1/pods?limit=500", "/api/v1/pods?resourceVersion=7&watch=true"
	ask := func(next http.RoundTripper, path string) (*http.Response, error) {
		return noWatchRetry(next).RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	}
	again := func(err error) bool {
		return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
	}
	for _, broken := range []http.RoundTripper{reset, refused} {
		if _, err := ask(broken, watch); err == nil || again(err) {
			t.Errorf("a watch fails with %v", err)
		}
		if _, err := ask(broken, list); !again(err) {
			t.Errorf("a list, which may be tried again, fails with %v", err)
		}
	}
	if answer, err := ask(busy, watch); err != nil || answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "" {
		t.Errorf("a busy server answers a watch with %v, %v", answer, err)
	}
	if answer, err := ask(busy, list); err != nil || answer.Header.Get("Retry-After") == "" {
		t.Errorf("a busy server answers a list with %v, %v", answer, err)
	}

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	canceled := RoundTripper(func(r *http.Request) (*http.Response, error) { return nil, r.Context().Err() })
	if _, err := noWatchRetry(canceled).RoundTrip(httptest.NewRequestWithContext(ended, http.MethodGet, watch, nil)); !errors.Is(err, context.Canceled) {
		t.Errorf("who ended the watch is told %v", err)
	}
}
