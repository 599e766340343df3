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
	wait := refresh
	if accepted {
		s.failures = 0
	} else {
		wait = min(firstRetry<<min(s.failures, 10), lastRetry)
		s.failures++
	}
	s.next = now.Add(wait - time.Duration(jitter*float64(wait)/5))
}
