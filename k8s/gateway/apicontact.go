package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"strait.dev/strait/k8s/client"
)

// apiContact knows whether the API server answers, from the requests that are made
// anyway. An error is an answer. It may be used concurrently.
type apiContact struct {
	log *slog.Logger
	up  prometheus.Gauge

	mu   sync.Mutex
	lost time.Time // since when; zero: it is not
}

// wrap makes a transport tell how its requests end.
func (c *apiContact) wrap(next http.RoundTripper) http.RoundTripper {
	return client.RoundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if !errors.Is(err, context.Canceled) { // by ourselves
			c.record(err)
		}
		return answer, err
	})
}

// tell logs when the contact is lost, and when it is there again.
func (c *apiContact) record(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.up.Set(1)
		if !c.lost.IsZero() {
			c.log.Info("the API server answers again", "after", time.Since(c.lost).Round(time.Second).String())
		}
		c.lost = time.Time{}
	case c.lost.IsZero():
		c.up.Set(0)
		c.log.Warn("the API server does not answer; going on with what is in force", "error", err)
		c.lost = time.Now()
	}
}
