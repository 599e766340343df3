package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"strait.dev/strait/internal/plan"
)

const webPort = 80

// startWeb starts a web server in pod b, which reports the client's address.
func (d *Demo) startWeb() error {
	listener, err := d.b.pod.listenTCP(netip.AddrPortFrom(d.b.Address[plan.V4], webPort))
	if err != nil {
		return fmt.Errorf("start the web server in pod b: %w", err)
	}
	d.web = &http.Server{
		ReadHeaderTimeout: d.limits.reply,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, greeting(d.b.Address[plan.V4], r.RemoteAddr))
		}),
	}
	d.serving.Go(func() { _ = d.web.Serve(listener) }) // always http.ErrServerClosed
	return nil
}

// greeting is the page of pod b.
func greeting(pod netip.Addr, client string) string {
	host, _, _ := net.SplitHostPort(client)
	return fmt.Sprintf("Hello from %v in cluster b. You are %s.\n", pod, host)
}

// webAddress is the address of the web server for clients in cluster a.
func (d *Demo) webAddress() netip.AddrPort { return netip.AddrPortFrom(d.b.PodSeen[plan.V4], webPort) }

// transport connects HTTP from a host to pod b for any URL.
func (d *Demo) transport(from *host) *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return from.dialTCP(ctx, d.webAddress())
		},
	}
}

// get fetches the page of pod b, which must contain the client address seen.
func (d *Demo) get(from *host, name string, seen netip.Addr) func(context.Context, *Step) error {
	return func(ctx context.Context, s *Step) error {
		url := "http://" + d.webAddress().Addr().String() + "/"
		begin := time.Now()
		page, err := fetch(ctx, d.transport(from), url)
		if err != nil {
			return err
		}
		took := time.Since(begin)
		if expected := greeting(d.b.Address[plan.V4], netip.AddrPortFrom(seen, 0).String()); page != expected {
			return &mismatch{fmt.Sprintf("the page %q", expected), fmt.Sprintf("%q", page)}
		}
		s.Summary = fmt.Sprintf("GET %s from %s; pod b received it from %v", url, name, seen)
		s.Figure = &Figure{"took", took.Seconds(), "s"}
		return nil
	}
}

func fetch(ctx context.Context, through *http.Transport, url string) (page string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: through}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", &mismatch{"status 200", answer.Status}
	}
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}
