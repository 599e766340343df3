package tun

import "time"

// roundTrip estimates the round-trip time of a link, by the rules of RFC 6298 section 2.
type roundTrip struct {
	rtt       time.Duration // of the last answer
	smoothed  time.Duration // 0 = none was measured
	deviation time.Duration // the mean
	guess     bool          // the estimate is of a request that was sent before the link came up
	measured  uint64        // answers to other requests
}

// measure updates the estimate. early says that the request was sent before the link came up: it may have waited for a handshake,
// or for an end that did not run, and counts only until there is a better one.
func (r *roundTrip) measure(rtt time.Duration, early bool) {
	r.rtt = rtt
	if !early {
		r.measured++
	}
	switch {
	case r.smoothed == 0 || r.guess && !early:
		r.smoothed, r.deviation, r.guess = rtt, rtt/2, early
	case !early:
		r.deviation += ((r.smoothed - rtt).Abs() - r.deviation) / 4
		r.smoothed += (rtt - r.smoothed) / 8
	}
}

// varies returns how much longer than the estimate a round trip may take.
func (r *roundTrip) varies() time.Duration { return 4 * r.deviation }
