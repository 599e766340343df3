package tun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Initiating: a link with endpoints sends handshake initiations to the peer until the peer
// answers. WireGuard by itself would keep the old session for 15 s after the peer was replaced
// by one without it, retry only every 5 s, and never try another address.
//
// The first initiation of an outage leaves the session as it is: the peer may be alive and only
// slow. The session is discarded only when that handshake has failed.

const (
	// callLook is how often a link checks whether to initiate.
	callLook = 250 * time.Millisecond
	// callAgain is the time from one attempt to the next. It is longer for the end that
	// yields, so that two ends that initiate at the same time do not keep answering each
	// other's handshakes and dropping their own. A peer that has not answered for callEager is
	// tried as often as WireGuard would.
	callAgain    = 2 * time.Second
	callAgainYet = 3 * time.Second
	callEager    = time.Minute
	callPatient  = 5 * time.Second
	// callPatientYet is callPatient for the end that yields. Handshakes may take longer than the
	// attempts of the two ends are apart: then each discards its own for the other's, again and
	// again. Different periods end that.
	callPatientYet = 8 * time.Second
	// callsEach is the number of attempts per address before the next address is tried.
	callsEach = 2
	// yieldTime is how long the end with the greater public key waits for the other to begin.
	// Two ends that start together would answer each other's handshakes, drop their own, and
	// wait 5 s before they retry.
	yieldTime = 300 * time.Millisecond
)

// caller decides which address a link tries, and when. It depends only on its calls and the
// times passed to it.
type caller struct {
	yields   bool
	at       netip.AddrPort // the last address tried; invalid = none yet
	calls    int            // number of consecutive attempts at it
	attempts int            // number of consecutive attempts
	since    time.Time      // since when the peer does not answer; zero = it does, or no attempt was made
	last     time.Time      // the last attempt; zero = the peer has answered since
}

// due reports whether to initiate now. received is whether packets of the peer arrive.
func (c *caller) due(alive, received bool, now time.Time) bool {
	if alive {
		c.calls, c.attempts, c.since, c.last = 0, 0, time.Time{}, time.Time{}
		return false
	}
	if c.since.IsZero() {
		c.since = now
	}
	return c.last.IsZero() || now.Sub(c.last) >= c.interval(received, now)
}

// interval returns the time between the last attempt and the next one. A peer whose packets arrive is not
// gone: each further attempt gives it twice the time, because a new attempt discards the answer to
// the previous one.
func (c *caller) interval(received bool, now time.Time) time.Duration {
	again, patient := callAgain, callPatient
	if c.yields {
		again, patient = callAgainYet, callPatientYet
	}
	switch {
	case now.Sub(c.since) >= callEager:
		return patient
	case received:
		return min(again<<min(c.attempts-1, 8), patient)
	}
	return again
}

// failed reports whether the last attempt has failed, given the time of the last handshake.
func (c *caller) failed(handshake time.Time) bool {
	return !c.last.IsZero() && handshake.Before(c.last)
}

// call selects one of the addresses found: the same one until callsEach attempts have failed,
// then the next. If none was found, the last one stays.
func (c *caller) call(found []netip.AddrPort, now time.Time) netip.AddrPort {
	c.last = now
	c.attempts++
	i := slices.Index(found, c.at)
	switch {
	case len(found) == 0:
		return c.at
	case i < 0:
		c.at, c.calls = found[0], 0
	case c.calls >= callsEach:
		c.at, c.calls = found[(i+1)%len(found)], 0
	}
	c.calls++
	return c.at
}

// call initiates handshakes with the peer at its endpoints whenever it does not answer, until
// ctx ends. While the peer answers, WireGuard itself follows its address. A new first endpoint
// in the settings is used at once.
func (l *Link) call(ctx context.Context) {
	c := caller{yields: l.yields()}
	if c.yields && !sleep(ctx, yieldTime) {
		return
	}
	first, told := "", false // logged that a name does not resolve
	for ; ; sleep(ctx, callLook) {
		if ctx.Err() != nil {
			return
		}
		endpoints := *l.endpoints.Load()
		if len(endpoints) == 0 {
			first = ""
			continue
		}
		now := l.clock.now()
		moved := first != "" && endpoints[0] != first
		first = endpoints[0]
		alive, received := l.alive(now)
		if !c.due(alive && !moved, received, now) && !moved {
			continue
		}
		failed := c.failed(converted(l.session().handshake, now))
		found, err := resolveAll(ctx, endpoints)
		if err != nil && !told {
			l.logger().Warn("cannot resolve the peer's endpoint; keeping the last known address and retrying", "error", err, "address", c.at)
		}
		told = err != nil
		before := c.at
		at := c.call(found, now)
		if at != before {
			l.logger().Info("peer endpoint", "address", at)
		}
		switch {
		case !at.IsValid():
		case !before.IsValid() || moved:
			l.contact(at)
		case failed:
			l.renew(at)
		default:
			if at != before {
				l.contact(at)
			}
			l.initiate()
		}
	}
}

// resolveAll resolves endpoints. Those that do not resolve are omitted and part of the error.
func resolveAll(ctx context.Context, endpoints []string) (found []netip.AddrPort, err error) {
	for _, e := range endpoints {
		some, problem := resolve(ctx, e)
		err = errors.Join(err, problem)
		for _, a := range some {
			if !slices.Contains(found, a) {
				found = append(found, a)
			}
		}
	}
	return found, err
}

// yields reports whether the other end initiates first when both start together.
func (l *Link) yields() bool {
	return bytes.Compare(l.key.own[:], l.key.remote[:]) > 0
}

// contact sets the peer's address in WireGuard (invalid: unchanged) and starts keepalives.
// Keepalives wait for this: WireGuard sends a handshake initiation as soon as it has something
// to send, and if it has no address yet it retries only after 5 s.
func (l *Link) contact(at netip.AddrPort) { l.tell(at, false) }

// initiate makes WireGuard start a handshake and keep the session until that completes, unless it
// has started one within 5 s.
func (l *Link) initiate() {
	if peer := l.wg.LookupPeer(l.key.remote); peer != nil {
		_ = peer.SendHandshakeInitiation(false) // WireGuard logs the error
	}
}

// renew makes WireGuard discard the session with the peer and start another.
func (l *Link) renew(at netip.AddrPort) {
	known := l.session()
	l.mu.Lock()
	l.before = known
	l.mu.Unlock()
	l.tell(at, true)
}

// tell configures the peer in WireGuard, as a new peer or as an update.
func (l *Link) tell(at netip.AddrPort, anew bool) {
	l.settings.Lock()
	settings := fmt.Sprintf("public_key=%x\n", l.peer.PublicKey[:])
	if anew {
		settings += "remove=true\n" + peerSettings(l.peer)
	} else {
		settings += "update_only=true\n"
	}
	if at.IsValid() {
		settings += fmt.Sprintf("endpoint=%v\n", at)
	}
	settings += fmt.Sprintf("persistent_keepalive_interval=%d\n", l.peer.Keepalive/time.Second)
	err := l.wg.IpcSet(settings)
	l.settings.Unlock()
	if err != nil {
		l.logger().Warn("cannot set the peer's endpoint", "error", err)
		return
	}
	if !l.tun.peerKnown.Swap(true) || anew {
		l.known(l)
	}
}
