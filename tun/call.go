package tun

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/link"
)

// callLook is how often a link that is not up checks whether to initiate.
const callLook = 100 * time.Millisecond

// caller initiates handshakes with the peer of a link at its endpoints, whenever the peer does not answer. While it answers,
// WireGuard itself follows its address. One goroutine runs it.
type caller struct {
	*Link
	decide link.Caller
	first  string // the first endpoint in the settings; empty = none
	told   bool   // logged that a name does not resolve
}

// call runs the caller of a link until ctx ends. While the link is up, it does nothing until lookAgain.
func (l *Link) call(ctx context.Context) {
	c := caller{Link: l, decide: link.NewCaller(bytes.Compare(l.key.own[:], l.key.remote[:]) < 0)}
	for {
		now := l.clock.now()
		isUp := l.state.fit(now) != link.Down
		c.checkReplayed(now)
		c.initiate(ctx, now)
		look, later := l.look, (<-chan time.Time)(nil)
		if !isUp {
			look, later = nil, time.After(callLook)
		}
		select {
		case <-ctx.Done():
			return
		case <-look:
		case <-later:
		}
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

// checkReplayed forgets the peer's last timestamp if WireGuard refuses its initiations because of it.
func (c *caller) checkReplayed(now time.Time) {
	if c.wg.replayed.Swap(false) {
		if alive, _ := c.alive(now); c.decide.Forgets(alive, now) {
			c.wg.forget()
		}
	}
}

// initiate initiates a handshake if that is due. A new first endpoint in the settings is used at once.
func (c *caller) initiate(ctx context.Context, now time.Time) {
	endpoints := c.wg.settings.Load().Endpoints
	if len(endpoints) == 0 {
		c.first = ""
		return
	}
	moved := c.first != "" && endpoints[0] != c.first
	c.first = endpoints[0]
	alive, received := c.alive(now)
	if !c.decide.Due(alive, now) && !moved {
		return
	}
	session := c.wg.session()
	failed := c.decide.GivesUp(c.clock.converted(session.handshake), c.carries(now), now)
	found := c.resolve(ctx, endpoints, now)
	// The peer's packets come from elsewhere, which need not lead to it: a load balancer that
	// forgot the flow, or a NAT, has replaced their source.
	elsewhere := len(found) > 0 && !slices.Contains(found, session.endpoint)
	if elsewhere {
		received = time.Time{}
	}
	before, rounds := c.decide.At, c.decide.Rounds
	at := c.decide.Call(found, received, now)
	if c.decide.Rounds > rounds {
		c.wg.changePort(c.decide.Rounds)
	}
	if at != before {
		c.wg.log().Info("peer endpoint", "address", at)
	}
	switch {
	case !at.IsValid():
	case !before.IsValid() || moved:
		c.wg.contact(at)
	default:
		if failed || at != before || elsewhere {
			c.wg.contact(at) // WireGuard may have learnt another one
		}
		c.decide.GaveUp = c.decide.GaveUp || failed
		c.wg.initiate(failed)
	}
}

// resolve returns the addresses of the endpoints that resolve.
func (c *caller) resolve(ctx context.Context, endpoints []string, now time.Time) (found []netip.AddrPort) {
	var err error
	for _, e := range endpoints {
		some, problem := c.names.resolve(ctx, e, now)
		err = errors.Join(err, problem)
		for _, a := range some {
			if !slices.Contains(found, a) {
				found = append(found, a)
			}
		}
	}
	if err != nil && !c.told {
		c.wg.log().Warn("cannot resolve the peer's endpoint; keeping the last known address and retrying", "error", err, "address", c.decide.At)
	}
	c.told = err != nil
	return found
}
