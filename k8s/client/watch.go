package client

import (
	"errors"
	"net/http"
)

// errWatchFailed is the error of a watch that could not begin.
var errWatchFailed = errors.New("the API server is away, or went away as the watch began")

// noWatchRetry makes a transport fail watches that cannot begin in a way that nobody tries again:
// then what is watched is listed anew. Client-go would go on from the last version it saw,
// as soon as the API server is back; but where etcd was put back to a backup meanwhile,
// that number is in the future, or stands for another change by now, and what the backup
// undid is never told.
func noWatchRetry(next http.RoundTripper) http.RoundTripper {
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		switch watching := r.URL.Query().Get("watch"); {
		case watching != "true" && watching != "1", r.Context().Err() != nil:
			return answer, err
		case err != nil:
			return nil, errWatchFailed // client-go knows what it tries again by the texts of errors, too
		}
		answer.Header.Del("Retry-After") // it would wait that long, and try again
		return answer, nil
	})
}

// RoundTripper is a function as a transport.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
