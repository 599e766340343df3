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

// Refusal is what the far end has against an announcement, in its own words.
type Refusal struct{ Reason string }

func (r *Refusal) Error() string {
	return "the other cluster refuses the announcement: " + r.Reason
}

// announce sends a body in the highest version that both ends speak, on a connection of
// its own: links come and go, and a minute lies between two exchanges.
// The versions of the far end are nil where they could not be learnt.
func announce(ctx context.Context, dial func(context.Context) (net.Conn, error), body []byte) (versions []int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	transport := &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression:     true,
		MaxConnsPerHost:        1,
		MaxResponseHeaderBytes: maxHeader,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	status, b, err := request(ctx, client, http.MethodGet, "/versions", nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, unexpected("/versions", status)
	}
	if versions, err = decodeVersions(b); err != nil {
		return nil, fmt.Errorf("the far end's answer to /versions %w", err)
	}
	version, err := common(versions, spoken)
	if err != nil {
		return versions, err
	}
	path := fmt.Sprintf("/v%d/announcement", version)
	status, b, err = request(ctx, client, http.MethodPut, path, body)
	if err != nil {
		return versions, err
	}
	return versions, verdict(path, status, b)
}

// verdict reads the answer to an announcement.
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
			r.Refused = "it gives no reason"
		}
		return &Refusal{plain(r.Refused)}
	case http.StatusBadRequest:
		var e errorBody
		if err := decode(b, &e); err != nil {
			return fmt.Errorf("the far end's answer %w", err)
		}
		return fmt.Errorf("the far end finds the announcement malformed: %s", plain(e.Error))
	}
	return unexpected(path, status)
}

func unexpected(path string, status int) error {
	return fmt.Errorf("the far end answers %d to %s, which no gateway does: look at what serves its port %d", status, path, Port)
}

// request makes one request and reads the whole answer, which is bounded.
func request(ctx context.Context, client *http.Client, method, path string, body []byte) (status int, answer []byte, err error) {
	// The host is for the header alone: the connection leads to the link's far end.
	r, err := http.NewRequestWithContext(ctx, method, "http://link"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err == nil && len(answer) > maxBody {
		err = errTooLong
	}
	if err != nil {
		return 0, nil, fmt.Errorf("read the far end's answer to %s: %w", path, err)
	}
	return response.StatusCode, answer, nil
}

// reason is why an exchange failed, by whom: a refusal, or else an error.
func reason(err error) (refused string, other error) {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Reason, nil
	}
	return "", err
}
