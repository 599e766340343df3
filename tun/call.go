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

// Calling: a link with endpoints calls the peer there until it answers. WireGuard by
// itself would go on with its old session for 15 s after the peer was replaced by one
// that has none, ask anew every 5 s only, and never elsewhere.

const (
	// callLook is how often a link looks whether to call.
	callLook = 250 * time.Millisecond
	// callAgain is how long a call may take before the next one. It is longer for the end
	// that yields, so that two that call each other do not go on answering each other's
	// handshakes and dropping their own. A peer that was gone for longer than callEager
	// is called as often as WireGuard would.
	callAgain    = 2 * time.Second
	callAgainYet = 3 * time.Second
	callEager    = time.Minute
	callPatient  = 5 * time.Second
	// callsEach is how often one address is called before the next is.
	callsEach = 2
	// yieldTime is how long the end with the greater public key lets the other
	// begin. Two ends that start together would answer each other's handshakes,
	// drop their own, and wait 5 s to try again.
	yieldTime = 300 * time.Millisecond
)

// caller decides whom a link calls, and when. It is a function of the calls and their
// times.
type caller struct {
	yields bool
	at     netip.AddrPort // called last; invalid = nobody yet
	calls  int            // of it, in a row
	since  time.Time      // the peer does not answer; zero = it does, or was not asked
	next   time.Time
}

// due reports whether to call now.
func (c *caller) due(alive bool, now time.Time) bool {
	if alive {
		c.calls, c.since, c.next = 0, time.Time{}, time.Time{}
		return false
	}
	if c.since.IsZero() {
		c.since = now
	}
	return !now.Before(c.next)
}

// call chooses among the addresses that there are now: the same as long as it was not
// called often, else the one behind it. Without any, the last stays.
func (c *caller) call(found []netip.AddrPort, now time.Time) netip.AddrPort {
	again := callAgain
	if c.yields {
		again = callAgainYet
	}
	if now.Sub(c.since) >= callEager {
		again = callPatient
	}
	c.next = now.Add(again)
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

// call calls the peer at its endpoints whenever it does not answer, until ctx ends. While
// it does, WireGuard itself follows the peer; another first endpoint in the settings is
// gone to at once.
func (l *Link) call(ctx context.Context) {
	c := caller{yields: l.yields()}
	if c.yields && !sleep(ctx, yieldTime) {
		return
	}
	first, told := "", false // told that a name does not resolve
	for ; ; sleep(ctx, callLook) {
		if ctx.Err() != nil {
			return
		}
		endpoints := *l.endpoints.Load()
		if len(endpoints) == 0 {
			first = ""
			continue
		}
		now := time.Now()
		moved := first != "" && endpoints[0] != first
		first = endpoints[0]
		if !c.due(l.alive(now) && !moved, now) && !moved {
			continue
		}
		found, err := resolveAll(ctx, endpoints)
		if err != nil && !told {
			l.logger().Warn("cannot resolve the peer's endpoint; going on with what is known, and trying again", "error", err, "address", c.at)
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
		default:
			l.renew(at)
		}
	}
}

// resolveAll looks endpoints up. What does not resolve is left out, and part of the error.
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

// yields reports whether the other end begins when both start together.
func (l *Link) yields() bool {
	return bytes.Compare(l.key.own[:], l.key.remote[:]) > 0
}

// contact tells WireGuard where the peer is (invalid: it knows already) and
// starts the keepalives. Both wait for this: WireGuard asks at once for a
// handshake when it has something to send, and after asking nobody it would not
// ask again for 5 s.
func (l *Link) contact(at netip.AddrPort) { l.tell(at, false) }

// renew makes WireGuard forget the session with the peer and ask for another.
func (l *Link) renew(at netip.AddrPort) {
	known := l.session()
	l.mu.Lock()
	l.before = known
	l.mu.Unlock()
	l.tell(at, true)
}

// tell tells WireGuard about the peer, as if it had never heard of it or as it knows it.
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
