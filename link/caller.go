package link

import (
	"net/netip"
	"slices"
	"time"
)

// Initiating: a link with endpoints sends handshake initiations to the peer until the peer
// answers. WireGuard by itself would keep the old session for 15 s after the peer was replaced
// by one without it, retry only every 5 s, and never try another address. Initiations of both ends
// that cross are the concern of package underlay.
//
// The first initiation of an outage leaves the session as it is: the peer may be alive and only
// slow. See GivesUp.

const (
	// callAgain is the time from one attempt to the next, if nothing of the peer arrives. Each attempt
	// discards the answer to the previous one, so it is longer than a round trip takes. The end with the smaller
	// public key waits an eighth less: attempts of both ends that cross do not cross for ever.
	callAgain = 2200 * time.Millisecond
	// callDoubled is how often that time is doubled, attempt by attempt, if packets of the peer arrive.
	callDoubled = 2
	// callForget is for how long initiations of the peer are refused as replayed before its last timestamp is
	// forgotten.
	callForget = 2 * time.Second
	// callsEach is the number of attempts per address before the next address is tried.
	callsEach = 2
)

// Caller decides which address a link tries, and when.
type Caller struct {
	again  time.Duration  // from one attempt to the next
	At     netip.AddrPort // the last address tried; invalid = none yet
	calls  int            // number of consecutive attempts at it
	Rounds int            // number of consecutive failures of all addresses
	slow   int            // number of consecutive attempts, each after packets of the peer had arrived
	GaveUp bool           // the session was given up since the peer answered last
	last   time.Time      // the last attempt; zero = the peer has been alive since
	// refused is when an initiation of the peer was first refused as replayed; zero = none since it answered last.
	refused time.Time
}

// NewCaller returns the Caller of an end, which may have the smaller public key.
func NewCaller(smaller bool) Caller {
	if smaller {
		return Caller{again: callAgain - callAgain/8}
	}
	return Caller{again: callAgain}
}

// Due reports whether to initiate now: not while the peer is alive.
func (c *Caller) Due(alive bool, now time.Time) bool {
	if alive {
		*c = Caller{again: c.again, At: c.At}
		return false
	}
	return c.last.IsZero() || now.Sub(c.last) >= c.again<<c.slow
}

// Forgets reports, when an initiation of the peer was refused as replayed, whether to forget the timestamp of
// the last one: if the peer does not answer, and another was refused before.
//
// WireGuard accepts initiations with increasing timestamps only. If the peer's clock was set back and it has
// lost its session, all it sends is refused until its clock has passed the last timestamp. An attacker that
// replays initiations can do as much as after a restart of this end: while the link is down, it gets an answer
// without use, and delays the next handshake of the peer.
func (c *Caller) Forgets(alive bool, now time.Time) bool {
	switch {
	case alive:
		c.refused = time.Time{}
	case c.refused.IsZero():
		c.refused = now
	case now.Sub(c.refused) >= callForget:
		c.refused = time.Time{}
		return true
	}
	return false
}

// failed reports whether the last attempt has failed, given the time of the last handshake.
func (c *Caller) failed(handshake time.Time) bool {
	return !c.last.IsZero() && handshake.Before(c.last)
}

// GivesUp reports whether the session is to be given up: the last attempt has failed, and nothing arrives in
// the session, or nothing does although the attempt led to a handshake some time ago. wireguard-go makes a
// session that does not work if it processes an initiation and a response of the peer at the same time.
func (c *Caller) GivesUp(handshake time.Time, carries bool, now time.Time) bool {
	if c.failed(handshake) {
		return c.GaveUp || !carries
	}
	return !c.last.IsZero() && !carries && now.Sub(handshake) >= callAgain/2
}

// Call selects one of the addresses found: the same one until callsEach attempts have failed,
// then the next. If none was found, the last one stays. received is when the last packet of the peer arrived.
func (c *Caller) Call(found []netip.AddrPort, received, now time.Time) netip.AddrPort {
	if !c.last.IsZero() && received.After(c.last) {
		c.slow = min(c.slow+1, callDoubled) // it is not gone
	} else {
		c.slow = 0
	}
	c.last = now
	i := slices.Index(found, c.At)
	switch {
	case len(found) == 0:
		return c.At
	case i < 0:
		c.At, c.calls = found[0], 0
	case c.calls >= callsEach:
		if i == len(found)-1 && c.slow == 0 {
			c.Rounds++
		}
		c.At, c.calls = found[(i+1)%len(found)], 0
	}
	c.calls++
	return c.At
}
