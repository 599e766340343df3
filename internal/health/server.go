package health

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options configure a server. The functions are called concurrently and must not block.
type Options struct {
	// Listen is host:port, TCP, as in net.Listen; empty: no server.
	Listen string
	// Alive is called for /healthz and returns why the process should be restarted. nil: always alive. A problem that a
	// restart does not fix, such as an unreachable API server, is not a reason.
	Alive func() error
	// Ready is called for /readyz and returns why the process is not ready. nil: always ready.
	Ready func() error
	// Metrics are served on /metrics. nil: only /healthz is served.
	Metrics prometheus.Gatherer
	Log     *slog.Logger
}

// Server serves until it is closed. A nil Server serves nothing.
type Server struct {
	http    *http.Server
	address net.Addr
	done    chan struct{}
}

// Serve starts a server. Without an address the server is nil.
func Serve(o Options) (*Server, error) {
	if o.Listen == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address, or leave it empty", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answer(o.Alive))
	if o.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
		mux.HandleFunc("GET /readyz", answer(o.Ready))
	}
	s := &Server{address: listener.Addr(), done: make(chan struct{})}
	s.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // http.ErrServerClosed: the only way it ends
	}()
	return s, nil
}

// answer returns a handler that responds 200, or 503 with the error.
func answer(wrong func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if wrong != nil {
			if err := wrong(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
		}
		io.WriteString(w, "ok\n")
	}
}

// Close closes all connections.
func (s *Server) Close() {
	if s == nil {
		return
	}
	s.http.Close()
	<-s.done
}
