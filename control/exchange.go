package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Refusal is the reason why the far end refuses an announcement, as the far end stated it.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string {
	return "the remote cluster refused the announcement: " + r.Reason
}

// Stale is the error of an announcement that is older than the one in effect at the far end.
type Stale struct{ InEffect int64 } // revision

func (s *Stale) Error() string {
	return fmt.Sprintf("revision %d or another announcement of that revision is in effect already", s.InEffect)
}

// announce sends a body in the highest version that both ends support. Each exchange uses a new connection: links come
// and go, and exchanges are a minute apart. versions is nil if the far end's versions are not known.
func announce(ctx context.Context, dial func(context.Context) (net.Conn, error), body []byte) (versions []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := newClient(dial)
	defer client.CloseIdleConnections()
	status, b, err := request(ctx, client, http.MethodGet, "/versions", nil, maxBody)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, unexpected("/versions", status)
	}
	if versions, err = decodeVersions(b); err != nil {
		return nil, fmt.Errorf("the far end's response to /versions %w", err)
	}
	version, err := common(versions, spoken)
	if err != nil {
		return versions, err
	}
	path := fmt.Sprintf("/v%d/announcement", version)
	status, b, err = request(ctx, client, http.MethodPut, path, body, maxBody)
	if err != nil {
		return versions, err
	}
	return versions, verdict(path, status, b)
}

// newClient returns a client that has one connection, made by dial.
func newClient(dial func(context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			DisableCompression:     true,
			MaxConnsPerHost:        1,
			ResponseHeaderTimeout:  holdTime + patience,
			MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// verdict interprets the response to an announcement.
func verdict(path string, status int, b []byte) error {
	switch status {
	case http.StatusOK:
		return nil
	case http.StatusConflict:
		var r refusalBody
		if err := decode(b, &r); err != nil {
			return fmt.Errorf("the far end's refusal %w", err)
		}
		if r.Refused == "" {
			r.Refused = "no reason given"
		}
		if r.Revision > 0 && r.Revision <= MaxRevision {
			return &Stale{r.Revision}
		}
		return &Refusal{plain(r.Refused)}
	case http.StatusBadRequest:
		var e errorBody
		if err := decode(b, &e); err != nil {
			return fmt.Errorf("the far end's response %w", err)
		}
		return fmt.Errorf("the far end rejected the announcement as malformed: %s", plain(e.Error))
	}
	return unexpected(path, status)
}

func unexpected(path string, status int) error {
	return fmt.Errorf("unexpected status %d for %s, which no gateway returns: check what serves port %d at the far end", status, path, Port)
}

// request sends one request and reads the complete response of at most limit bytes. With an error the answer is what was
// read before.
func request(ctx context.Context, client *http.Client, method, path string, body []byte, limit int) (status int, answer []byte, err error) {
	// The host name is only a header: the connection leads to the link's far end.
	r, err := http.NewRequestWithContext(ctx, method, "http://link"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, nil, foreign{err}
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, int64(limit)+1))
	if err == nil && len(answer) > limit {
		err = tooLong(limit)
	}
	if err != nil {
		return 0, answer, fmt.Errorf("read the far end's response to %s: %w", path, foreign{err})
	}
	return response.StatusCode, answer, nil
}

// reason splits the error of an exchange into a refusal by the far end, a later revision there, or another error.
func reason(err error) (refused string, stale int64, other error) {
	var r *Refusal
	var s *Stale
	switch {
	case errors.As(err, &r):
		return r.Reason, 0, nil
	case errors.As(err, &s):
		return "", s.InEffect, nil
	}
	return "", 0, err
}
