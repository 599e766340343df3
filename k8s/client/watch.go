package client

import (
	"errors"
	"net/http"
)

var errWatchFailed = errors.New("the API server is unreachable, or became unreachable when the watch started")

// noWatchRetry returns a transport that makes watches which cannot start fail with an error
// that client-go does not retry, so that it lists again. client-go would otherwise resume
// from the last version that it saw. If etcd was restored from a backup in the meantime,
// that version is in the future, or belongs to another change, and changes that the backup
// reverted would never be noticed.
func noWatchRetry(next http.RoundTripper) http.RoundTripper {
	return RoundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		switch watching := r.URL.Query().Get("watch"); {
		case watching != "true" && watching != "1", r.Context().Err() != nil:
			return answer, err
		case err != nil:
			return nil, errWatchFailed // client-go also matches error texts to decide on retries
		}
		answer.Header.Del("Retry-After") // client-go would wait and retry
		return answer, nil
	})
}

// RoundTripper adapts a function to http.RoundTripper.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f RoundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
