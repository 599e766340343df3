package tun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/link"
)

// Initiating: a link with endpoints sends handshake initiations to the peer until the peer
// answers. WireGuard by itself would keep the old session for 15 s after the peer was replaced
// by one without it, retry only every 5 s, and never try another address. Initiations of both ends
// that cross are the concern of package underlay.
//
// The first initiation of an outage leaves the session as it is: the peer may be alive and only
// slow. See caller.givesUp.

const (
	// callLook is how often a link that is not up checks whether to initiate.
	callLook = 100 * time.Millisecond
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

// caller decides which address a link tries, and when. It depends only on its calls and the
// times passed to it.
type caller struct {
	again  time.Duration  // from one attempt to the next
	at     netip.AddrPort // the last address tried; invalid = none yet
	calls  int            // number of consecutive attempts at it
	rounds int            // number of consecutive failures of all addresses
	slow   int            // number of consecutive attempts, each after packets of the peer had arrived
	gaveUp bool           // the session was given up since the peer answered last
	last   time.Time      // the last attempt; zero = the peer has been alive since
	// refused is when an initiation of the peer was first refused as replayed; zero = none since it answered last.
	refused time.Time
}

// newCaller returns the caller of an end, which may have the smaller public key.
func newCaller(smaller bool) caller {
	if smaller {
		return caller{again: callAgain - callAgain/8}
	}
	return caller{again: callAgain}
}

// due reports whether to initiate now: not while the peer is alive.
func (c *caller) due(alive bool, now time.Time) bool {
	if alive {
		*c = caller{again: c.again, at: c.at}
		return false
	}
	return c.last.IsZero() || now.Sub(c.last) >= c.again<<c.slow
}

// forgets reports, when an initiation of the peer was refused as replayed, whether to forget the timestamp of
// the last one: if the peer does not answer, and another was refused before.
//
// WireGuard accepts initiations with increasing timestamps only. If the peer's clock was set back and it has
// lost its session, all it sends is refused until its clock has passed the last timestamp. An attacker that
// replays initiations can do as much as after a restart of this end: while the link is down, it gets an answer
// without use, and delays the next handshake of the peer.
func (c *caller) forgets(alive bool, now time.Time) bool {
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
func (c *caller) failed(handshake time.Time) bool {
	return !c.last.IsZero() && handshake.Before(c.last)
}

// givesUp reports whether the session is to be given up: the last attempt has failed, and nothing arrives in
// the session, or nothing does although the attempt led to a handshake some time ago. wireguard-go makes a
// session that does not work if it processes an initiation and a response of the peer at the same time.
func (c *caller) givesUp(handshake time.Time, carries bool, now time.Time) bool {
	if c.failed(handshake) {
		return c.gaveUp || !carries
	}
	return !c.last.IsZero() && !carries && now.Sub(handshake) >= callAgain/2
}

// call selects one of the addresses found: the same one until callsEach attempts have failed,
// then the next. If none was found, the last one stays. received is when the last packet of the peer arrived.
func (c *caller) call(found []netip.AddrPort, received, now time.Time) netip.AddrPort {
	if !c.last.IsZero() && received.After(c.last) {
		c.slow = min(c.slow+1, callDoubled) // it is not gone
	} else {
		c.slow = 0
	}
	c.last = now
	i := slices.Index(found, c.at)
	switch {
	case len(found) == 0:
		return c.at
	case i < 0:
		c.at, c.calls = found[0], 0
	case c.calls >= callsEach:
		if i == len(found)-1 && c.slow == 0 {
			c.rounds++
		}
		c.at, c.calls = found[(i+1)%len(found)], 0
	}
	c.calls++
	return c.at
}

// call initiates handshakes with the peer at its endpoints whenever it does not answer, until
// ctx ends. While the peer answers, WireGuard itself follows its address. A new first endpoint
// in the settings is used at once.
func (l *Link) call(ctx context.Context) {
	c := newCaller(bytes.Compare(l.key.own[:], l.key.remote[:]) < 0)
	first, told := "", false // logged that a name does not resolve
	isUp := false
	for ok := true; ok; ok = l.wait(ctx, isUp) {
		now := l.clock.now()
		isUp = l.fit(now) != link.Down
		l.checkReplayed(&c, now)
		endpoints := *l.endpoints.Load()
		if len(endpoints) == 0 {
			first = ""
			continue
		}
		moved := first != "" && endpoints[0] != first
		first = endpoints[0]
		alive, received := l.alive(now)
		if !c.due(alive, now) && !moved {
			continue
		}
		session := l.session()
		failed := c.givesUp(l.clock.converted(session.handshake), l.carries(now), now)
		found, err := l.names.resolveAll(ctx, endpoints, now)
		if err != nil && !told {
			l.logger().Warn("cannot resolve the peer's endpoint; keeping the last known address and retrying", "error", err, "address", c.at)
		}
		told = err != nil
		// The peer's packets come from elsewhere, which need not lead to it: a load balancer that
		// forgot the flow, or a NAT, has replaced their source.
		elsewhere := len(found) > 0 && !slices.Contains(found, session.endpoint)
		if elsewhere {
			received = time.Time{}
		}
		before, rounds := c.at, c.rounds
		at := c.call(found, received, now)
		if c.rounds > rounds {
			l.changePort(c.rounds)
		}
		if at != before {
			l.logger().Info("peer endpoint", "address", at)
		}
		switch {
		case !at.IsValid():
		case !before.IsValid() || moved:
			l.contact(at)
		default:
			if failed || at != before || elsewhere {
				l.contact(at) // WireGuard may have learnt another one
			}
			c.gaveUp = c.gaveUp || failed
			l.initiate(failed)
		}
	}
}

// wait waits until there may be a reason to initiate: for callLook, or, if the link was up when it was looked at last,
// until lookAgain. It reports false when ctx ends.
func (l *Link) wait(ctx context.Context, isUp bool) bool {
	if !isUp {
		return sleep(ctx, callLook)
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.look:
		return true
	}
}

// lookAgain makes call check whether to initiate although the link was up: it is not any more, or its settings changed, or
// the peer wants a new session.
func (l *Link) lookAgain() {
	select {
	case l.look <- struct{}{}:
	default: // it is about to
	}
}

// changePort makes the link send from another UDP port, alternately a new one and the configured
// one. Load balancers and NATs send what continues a flow to the same place, even if the gateway
// there is gone and another one has taken over its address: kube-proxy for as long as packets
// arrive. rounds is how often no address has answered.
func (l *Link) changePort(rounds int) {
	own := rounds%2 == 1
	if rounds == 1 {
		l.logger().Info("no endpoint of the peer answers; trying other UDP source ports")
	}
	l.settings.Lock()
	defer l.settings.Unlock()
	l.bind.UseOwnPort(own)
	err := l.wg.BindUpdate()
	if err != nil && own {
		l.bind.UseOwnPort(false)
		err = errors.Join(err, l.wg.BindUpdate())
	}
	if err != nil {
		l.logger().Warn("cannot send from another UDP port", "error", err)
	}
}

// resolveAll resolves endpoints. Those that do not resolve are omitted and part of the error.
func (r *resolver) resolveAll(ctx context.Context, endpoints []string, now time.Time) (found []netip.AddrPort, err error) {
	for _, e := range endpoints {
		some, problem := r.resolve(ctx, e, now)
		err = errors.Join(err, problem)
		for _, a := range some {
			if !slices.Contains(found, a) {
				found = append(found, a)
			}
		}
	}
	return found, err
}

// checkReplayed forgets the peer's last timestamp if WireGuard refuses its initiations because of it.
func (l *Link) checkReplayed(c *caller, now time.Time) {
	if l.replayed.Swap(false) {
		if alive, _ := l.alive(now); c.forgets(alive, now) {
			l.forget()
		}
	}
}

// forget removes the peer from WireGuard and adds it again. Its session, which did not work, and its counters
// end; its address stays.
func (l *Link) forget() {
	known := l.session().endpoint
	l.settings.Lock()
	remove := fmt.Sprintf("public_key=%x\nremove=true\n", l.peer.PublicKey[:])
	err := l.wg.IpcSet(remove + peerSettings(l.peer))
	l.settings.Unlock()
	if err != nil {
		l.logger().Warn("cannot add the peer again", "error", err)
		return
	}
	l.logger().Warn("the peer's clock was set back; its last timestamp is forgotten")
	if known.IsValid() {
		l.contact(known)
	}
}

// initiate makes WireGuard start a handshake. anew gives up the session and handshakes in progress;
// otherwise WireGuard keeps the session until the handshake completes, and does nothing if it has started
// one within 5 s.
func (l *Link) initiate(anew bool) {
	peer := l.wg.LookupPeer(l.key.remote)
	if peer == nil {
		return
	}
	if anew {
		peer.ExpireCurrentKeypairs() // packets that the peer sends in the session are still received
	}
	_ = peer.SendHandshakeInitiation(false) // WireGuard logs the error
}

// contact sets the peer's address in WireGuard (invalid: unchanged) and starts keepalives.
// Keepalives wait for this: WireGuard sends a handshake initiation as soon as it has something
// to send, and if it has no address yet it retries only after 5 s.
func (l *Link) contact(at netip.AddrPort) {
	l.settings.Lock()
	settings := fmt.Sprintf("public_key=%x\nupdate_only=true\n", l.peer.PublicKey[:])
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
	l.tun.peerKnown.Store(true)
}
