package tun

import (
	"time"

	"strait.dev/strait/link"
)

// fit returns the fitness of the link.
func (l *Link) fit(now time.Time) link.Fitness {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prober.Fit(now)
}

// upSince returns since when the link has been up; zero: it is down.
func (l *Link) upSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prober.UpSince
}

// steady returns how long the link had been up when both directions last worked.
func (l *Link) steady() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prober.Steady()
}

// listen notes what the device has received. l.mu is held.
func (l *Link) listen() {
	last := l.tun.lastReceived()
	if last.IsZero() {
		return
	}
	if at := l.clock.converted(last); at.After(l.received) {
		l.received = at
	}
}

// tick returns the probe that is due.
func (l *Link) tick(mtu int, leaving bool, now time.Time) link.Probe {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen()
	received, silence := l.received.After(l.heard), link.MaxSilence
	l.heard = l.received
	if !l.received.IsZero() {
		silence = max(now.Sub(l.received), 0)
	}
	return l.prober.Tick(received, silence, mtu, leaving, now)
}

// taken is what a probe of the far end meant.
type taken struct {
	changed bool          // the fitness of the link is another than before
	leaves  bool          // the far end says for the first time that it is about to end the link
	rtt     time.Duration // a round trip; 0: it gave none
}

// took processes the probe of a tick of the far end.
func (l *Link) took(q link.Probe, now time.Time) (t taken) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, left := l.prober.Fit(now), l.prober.Last.Kind == link.Leaving
	if l.prober.Take(q, now) {
		t.rtt = l.prober.RTT
	}
	fit := l.prober.Fit(now)
	if before == link.Down && fit != link.Down {
		l.path.Restart()
	}
	t.changed = fit != before
	t.leaves = l.prober.Last.Kind == link.Leaving && !left
	return t
}

// askPath returns the sizes of the probes of the path that are due, 0 for none. ceiling is the MTU of this end's interfaces.
func (l *Link) askPath(ceiling int, now time.Time) (sizes [2]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.prober.Fit(now) == link.Down {
		return sizes
	}
	target := ceiling
	if far := int(l.prober.Last.MTU); far != 0 {
		target = min(target, max(far, link.MinMTU))
	}
	sizes[0], sizes[1] = l.path.Ask(target, ceiling, 2*l.prober.RTT+link.Interval, now)
	return sizes
}

// crossed notes that a packet of a size has reached the far end.
func (l *Link) crossed(size int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path.Answer(size, now)
}

// settle logs a change of the link, and reports one.
func (l *Link) settle(now time.Time) (changed, up bool) {
	l.mu.Lock()
	up = l.prober.Fit(now) != link.Down
	changed, l.wasUp = up != l.wasUp, up
	rtt, unproven, silence := l.prober.RTT, now.Sub(l.prober.News), now.Sub(l.received)
	l.mu.Unlock()
	if !up {
		l.lookAgain()
	}
	switch {
	case changed && up:
		l.logger().Info("link is up", "rtt", rtt)
	case changed:
		l.logger().Warn("link is down: no probe crosses", "for", unproven.Round(time.Millisecond), "received", silence.Round(time.Millisecond))
	}
	return changed, up
}

// alive reports whether the far end is up: probes cross, or, if it has never sent any because it is not
// Strait, it completes handshakes. received is when its last packet arrived; zero = never.
func (l *Link) alive(now time.Time) (alive bool, received time.Time) {
	l.mu.Lock()
	l.listen()
	up, probes, received := l.prober.Fit(now) != link.Down, l.prober.Last.Kind != 0, l.received
	if up {
		l.counted = 0
	}
	l.mu.Unlock()
	if up {
		return true, received
	}
	s := l.session()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counted != 0 && s.received > l.counted { // authenticated messages, handshakes and keepalives included
		l.received = now
	}
	l.counted = max(s.received, 1)
	return !probes && time.Since(s.handshake) < handshakeFresh, l.received
}

// carries reports whether packets arrive in the session, and the peer does not say that it receives none.
func (l *Link) carries(now time.Time) bool {
	l.mu.Lock()
	unreached := l.prober.Last.Unreached()
	l.mu.Unlock()
	last := l.tun.lastReceived()
	return !unreached && !last.IsZero() && now.Sub(l.clock.converted(last)) < link.Misses*link.Interval
}
