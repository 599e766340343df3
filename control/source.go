package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"
)

// source is a remote gateway that an Importer may ask. It is used by one goroutine.
type source struct {
	link       Link
	client     *http.Client
	next       time.Time // when it may be asked again
	failures   int       // consecutive
	err        error     // of the last request
	logged     string    // the last error in the log; empty: none since the last success
	staleUntil time.Time
	snapshotAt time.Time // when its last snapshot began
	read       int       // length of its last answer in bytes
}

func newSource(dial func(context.Context, Link) (net.Conn, error)) *source {
	s := new(source)
	s.client = newClient(func(ctx context.Context) (net.Conn, error) { return dial(ctx, s.link) })
	return s
}

// close closes the connection. The next request opens one again.
func (s *source) close() { s.client.CloseIdleConnections() }

// stale reports whether the gateway called its records stale recently.
func (s *source) stale(now time.Time) bool { return now.Before(s.staleUntil) }

// ask asks the gateway for what follows a position.
func (s *source) ask(ctx context.Context, at servicePosition) (*servicePage, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+holdTime+pagePatience)
	defer cancel()
	status, b, err := request(ctx, s.client, http.MethodGet, servicesPath+"?"+at.query(), nil, maxPage)
	s.read = len(b)
	if err != nil {
		var outer *url.Error
		if errors.As(err, &outer) {
			err = foreign{outer.Err} // the URL differs with each request
		}
		return nil, err
	}
	switch status {
	case http.StatusOK:
		p, err := decodeServicePage(b)
		if err != nil {
			return nil, fmt.Errorf("the page of exported Services %w", err)
		}
		return p, nil
	case http.StatusServiceUnavailable:
		return nil, errNotLoaded
	}
	return nil, unexpected(servicesPath, status)
}

// done records the result of a request. Jitter is from 0 to 1.
func (s *source) done(err error, now time.Time, jitter float64) {
	if s.err = err; err == nil {
		s.failures, s.next = 0, now
		return
	}
	s.next = now.Add(backoff(s.failures, jitter))
	s.failures++
}

// tell logs an error that differs from the one before, and the end of one.
func (s *source) tell(log *slog.Logger) {
	log = log.With("link", s.link.Name)
	switch {
	case s.err == nil && s.logged == "" || s.err != nil && s.err.Error() == s.logged:
		return
	case s.err == nil:
		log.Info("the remote gateway sends exported Services again")
	case errors.Is(s.err, errNotLoaded):
		log.Info("exported Services are not received from this gateway", "reason", s.err)
	default:
		log.Warn("cannot receive exported Services; retrying", "error", plain(s.err.Error()))
	}
	s.logged = ""
	if s.err != nil {
		s.logged = s.err.Error()
	}
}
