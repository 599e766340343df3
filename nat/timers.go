package nat

import "time"

// Idle timeouts of flows in seconds. A flow ends in the first Expire after the timeout has
// passed, so counting in whole seconds never shortens it.
const (
	udpIdle = 5 * 60 // RFC 4787 REQ-5: 2 minutes at least, 5 recommended

	tcpEstablishedIdle = 2*60*60 + 4*60 // RFC 5382 REQ-5: 2 hours 4 minutes at least
	tcpTransitoryIdle  = 4 * 60         // RFC 5382 REQ-5, RFC 7857 section 2.1: opening, closing, reset

	icmpIdle = 60 // RFC 5508 REQ-2: 60 seconds at least
)

const (
	// portHold is how many seconds a freed port rests, so that late packets for its last user
	// do not reach the next one: RFC 6888 REQ-8.
	portHold = 120

	// unansweredIdle is how many seconds an unanswered flow must have been idle before it may
	// be evicted from a full table: not less than the minimum UDP timeout of RFC 4787 REQ-5, and
	// longer than the pauses of a SYN that is being retransmitted.
	unansweredIdle = 120
)

// idleLimit returns the idle timeout of a flow in seconds.
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

// seconds returns the whole seconds since the epoch, 0 for earlier times. The counter lasts
// for 136 years.
func (m *Masquerade) seconds(now time.Time) uint32 {
	return uint32(max(now.Sub(m.epoch), 0) / time.Second)
}

// idle returns the seconds since last. Goroutines read the clock independently, so last may
// be slightly later than now.
func idle(last, now uint32) uint32 {
	if last >= now {
		return 0
	}
	return now - last
}
