package control

import "time"

const (
	// refresh is how often an accepted announcement is repeated: the far end may have
	// been restarted, or have changed its mind.
	refresh = 60 * time.Second
	// After a failure or a refusal the next attempt waits, longer each time.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// schedule says when to announce over one link. It is a function of the calls and
// their times.
type schedule struct {
	tried    uint64    // the newest announcement that was sent, by number; 0 = none yet
	next     time.Time // when to send it again
	failures int       // in a row
}

// due reports whether to send now: when the announcement is a new one, or its time
// has come again.
func (s *schedule) due(number uint64, now time.Time) bool {
	return number != s.tried || !now.Before(s.next)
}

// done notes how sending an announcement ended. Jitter, from 0 to 1, spreads the
// next attempts of many gateways over a fifth of the time.
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
