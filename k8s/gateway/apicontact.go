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

// apiContact tracks whether the API server answers, from the regular requests. An HTTP
// error status is an answer. It is safe for concurrent use.
type apiContact struct {
	log *slog.Logger
	up  prometheus.Gauge

	mu   sync.Mutex
	lost time.Time // since when; zero: the API server answers
}

func (c *apiContact) wrap(next http.RoundTripper) http.RoundTripper {
	return client.RoundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if !errors.Is(err, context.Canceled) { // cancelled by the gateway itself
			c.record(err)
		}
		return answer, err
	})
}

// staleTime is the time without an API server after which a gateway calls its exports stale.
const staleTime = time.Minute

func (c *apiContact) stale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.lost.IsZero() && time.Since(c.lost) > staleTime
}

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
		c.log.Warn("the API server does not answer; continuing with the last configuration", "error", err)
		c.lost = time.Now()
	}
}
