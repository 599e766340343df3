package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"strait.dev/strait/config"
)

// server is the read-only HTTP side: /metrics, /healthz, /readyz. There is
// nothing to change through it, and no profile to take.
type server struct {
	http  *http.Server
	ready atomic.Bool
	done  chan struct{}
}

// serve listens, unless no address is configured.
func serve(at config.ListenAddress, registry *prometheus.Registry, log *slog.Logger) (*server, error) {
	s := &server{done: make(chan struct{})}
	if !at.Configured() {
		close(s.done)
		return s, nil
	}
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		return nil, fmt.Errorf("observability.listen: %w; choose another address, or leave it empty", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", s.readyz)
	s.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // http.ErrServerClosed: the only way it ends
	}()
	return s, nil
}

// readyz: ready means that sockets are open and the table is in place. Whether a
// link is up is no part of it: a peer can only come up through a gateway that
// its Service sends handshakes to. Nor is where the configuration comes from.
func (s *server) readyz(w http.ResponseWriter, _ *http.Request) {
	if !s.ready.Load() {
		http.Error(w, "no configuration in force, or draining", http.StatusServiceUnavailable)
		return
	}
	io.WriteString(w, "ok\n")
}

func (s *server) close() {
	if s.http != nil {
		s.http.Close()
	}
	<-s.done
}
