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

// callLook is how often a link that is not up checks whether to initiate.
const callLook = 100 * time.Millisecond

// call initiates handshakes with the peer at its endpoints whenever it does not answer, until
// ctx ends. While the peer answers, WireGuard itself follows its address. A new first endpoint
// in the settings is used at once.
func (l *Link) call(ctx context.Context) {
	c := link.NewCaller(bytes.Compare(l.key.own[:], l.key.remote[:]) < 0)
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
		if !c.Due(alive, now) && !moved {
			continue
		}
		session := l.session()
		failed := c.GivesUp(l.clock.converted(session.handshake), l.carries(now), now)
		found, err := l.names.resolveAll(ctx, endpoints, now)
		if err != nil && !told {
			l.logger().Warn("cannot resolve the peer's endpoint; keeping the last known address and retrying", "error", err, "address", c.At)
		}
		told = err != nil
		// The peer's packets come from elsewhere, which need not lead to it: a load balancer that
		// forgot the flow, or a NAT, has replaced their source.
		elsewhere := len(found) > 0 && !slices.Contains(found, session.endpoint)
		if elsewhere {
			received = time.Time{}
		}
		before, rounds := c.At, c.Rounds
		at := c.Call(found, received, now)
		if c.Rounds > rounds {
			l.changePort(c.Rounds)
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
			c.GaveUp = c.GaveUp || failed
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
func (l *Link) checkReplayed(c *link.Caller, now time.Time) {
	if l.replayed.Swap(false) {
		if alive, _ := l.alive(now); c.Forgets(alive, now) {
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
