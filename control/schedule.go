package control

import "time"

const (
	// refresh is how often an accepted announcement is repeated: the far end may have restarted, or may decide
	// differently now.
	refresh = 60 * time.Second
	// After a failure or a refusal the delay before the next attempt grows.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// schedule decides when to announce over one link. It depends only on its calls and the times passed to it.
type schedule struct {
	tried    uint64    // number of the newest announcement sent; 0 = none yet
	next     time.Time // when to send again
	failures int       // consecutive failures
}

// due reports whether to send now: the announcement is new, or a repetition or retry is due.
func (s *schedule) due(number uint64, now time.Time) bool {
	return number != s.tried || !now.Before(s.next)
}

// done records the result of sending an announcement. Jitter, from 0 to 1, spreads the next attempts of many gateways
// over a fifth of the interval.
func (s *schedule) done(number uint64, accepted bool, now time.Time, jitter float64) {
	s.tried = number
	if accepted {
		s.failures, s.next = 0, now.Add(spread(refresh, jitter))
	} else {
		s.next = now.Add(backoff(s.failures, jitter))
		s.failures++
	}
}

// backoff returns the delay after a number of consecutive failures before the last one.
func backoff(failures int, jitter float64) time.Duration {
	return spread(min(firstRetry<<min(failures, 10), lastRetry), jitter)
}

// spread shortens an interval by up to a fifth of it, so that many gateways do not act at the same time.
func spread(interval time.Duration, jitter float64) time.Duration {
	return interval - time.Duration(jitter*float64(interval)/5)
}
