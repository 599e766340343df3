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

// server is what a gateway says of itself.
//
// Ready means that sockets are open and the table is in place. Whether a link is up is no
// part of it: a peer can only come up through a gateway that its Service sends handshakes
// to. Nor is where the configuration comes from.
type server struct {
	*health.Server
	ready atomic.Bool
}

// serve listens, unless no address is configured.
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
	return errors.New("no configuration in force, or draining")
}
