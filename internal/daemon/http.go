package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/health"
)

// server serves health and metrics of a gateway.
//
// Ready means that the sockets are open and the table is in place. Link state is not part of it, because a peer can only
// connect through a gateway that is ready in its Service. The source of the configuration is not part of it either.
type server struct {
	*health.Server
	ready atomic.Bool
}

// serve starts the server, unless no address is configured.
func serve(at config.ListenAddress, registry *prometheus.Registry, log *slog.Logger) (*server, error) {
	s := &server{}
	o := health.Options{Ready: s.problem, Metrics: registry, Log: log}
	if at.Configured() {
		o.Listen = at.String()
	}
	var err error
	if s.Server, err = health.Serve(o); err != nil {
		return nil, fmt.Errorf("observability.listen: %w", err)
	}
	return s, nil
}

func (s *server) problem() error {
	if s.ready.Load() {
		return nil
	}
	return errors.New("no configuration applied yet, or draining")
}
