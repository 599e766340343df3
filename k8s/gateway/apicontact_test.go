package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/logbuffer"
)

func TestALostAPIServerIsToldOnceAndSoIsItsReturn(t *testing.T) {
	log := new(logbuffer.Buffer)
	c := &apiContact{log: slog.New(slog.NewTextHandler(log, nil)), up: newMetrics().api}
	var fails error
	transport := c.wrap(client.RoundTripper(func(*http.Request) (*http.Response, error) {
		if fails != nil {
			return nil, fails
		}
		return &http.Response{StatusCode: http.StatusServiceUnavailable}, nil // an answer
	}))
	for _, step := range []struct {
		fails error
		lines int // in the log after it
	}{
		{nil, 0}, {context.Canceled, 0}, {errors.New("refused"), 1}, {errors.New("refused"), 1}, {context.DeadlineExceeded, 1}, {nil, 2}, {nil, 2}, {errors.New("refused"), 3},
	} {
		fails = step.fails
		_, _ = transport.RoundTrip(new(http.Request))
		if got := strings.Count(log.String(), "\n"); got != step.lines {
			t.Errorf("after %v: %d lines, want %d:\n%s", step.fails, got, step.lines, log)
		}
	}
}
