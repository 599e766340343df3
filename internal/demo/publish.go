package demo

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Serve publishes the web server and metrics on loopback until Close.
func (d *Demo) Serve() ([]Endpoint, error) {
	front := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", d.webAddress().String() },
		Transport: d.transport(d.a.pod),
	}
	var endpoints []Endpoint
	for _, o := range []struct {
		name, path string
		handler    http.Handler
	}{
		{"web server of pod b, requested from pod a", "/", front},
		{"metrics of gateway a", "/metrics", metrics(d.a)},
		{"metrics of gateway b", "/metrics", metrics(d.b)},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("listen on loopback: %w", err)
		}
		mux := http.NewServeMux()
		mux.Handle("GET "+o.path, o.handler)
		s := &http.Server{Handler: mux, ReadHeaderTimeout: d.limits.reply}
		d.servers = append(d.servers, s)
		d.serving.Go(func() { _ = s.Serve(listener) }) // always http.ErrServerClosed
		endpoints = append(endpoints, Endpoint{o.name, fmt.Sprintf("http://%v%s", listener.Addr(), o.path)})
	}
	return endpoints, nil
}

func metrics(c *cluster) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(c.gateway)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}
