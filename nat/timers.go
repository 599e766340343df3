package nat

import "time"

// How long a flow may be idle, in seconds. A flow ends when Expire next looks
// after more than this has passed, so that whole seconds never make it too short.
const (
	udpIdle = 5 * 60 // RFC 4787 REQ-5: 2 minutes at least, 5 recommended

	tcpEstablishedIdle = 2*60*60 + 4*60 // RFC 5382 REQ-5: 2 hours 4 minutes at least
	tcpTransitoryIdle  = 4 * 60         // RFC 5382 REQ-5, RFC 7857 section 2.1: opening, closing, reset

	icmpIdle = 60 // RFC 5508 REQ-2: 60 seconds at least
)

const (
	// portHold is for how many seconds a port is nobody's after its mapping has
	// ended, lest what still comes for the last user reach the next: RFC 6888 REQ-8.
	portHold = 120

	// unansweredIdle is for how many seconds a flow that was never answered must
	// have been idle before it may make room for another in a full table: no less
	// than RFC 4787 REQ-5 lets any UDP mapping live, and longer than a SYN that is
	// still being retried is silent.
	unansweredIdle = 120
)

// idleLimit is for how many seconds a flow may be idle.
func idleLimit(k kind, s TCPState) uint32 {
	switch {
	case k == kindUDP:
		return udpIdle
	case k == kindICMP:
		return icmpIdle
	case s.Established():
		return tcpEstablishedIdle
	}
	return tcpTransitoryIdle
}

// seconds are the whole seconds since the epoch; earlier than that is 0. They
// last for 136 years.
func (m *Masquerade) seconds(now time.Time) uint32 {
	return uint32(max(now.Sub(m.epoch), 0) / time.Second)
}

// idle is for how many seconds nothing has happened. Goroutines read their
// clocks apart, so last may be a little later than now.
func idle(last, now uint32) uint32 {
	if last >= now {
		return 0
	}
	return now - last
}
