package tun

import (
	"net/netip"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// LinkIdentity identifies a link by its keys; names may change.
type LinkIdentity struct {
	Name              string
	Gateway           string     // the remote gateway; several links may lead to it
	OwnKey, RemoteKey config.Key // public
}

// LinkStatus is the state of one link.
type LinkStatus struct {
	LinkIdentity
	Up             bool          // probes are answered, or packets arrive and one was answered within 5 s
	Active         bool          // traffic from nodes goes through it
	Share          float64       // of the flows from nodes, 0 to 1
	RTT            time.Duration // of the last answered probe; 0 = none yet
	ProbesSent     uint64
	ProbesLost     uint64
	LastHandshake  time.Time      // zero = never
	Endpoint       netip.AddrPort // the peer's address; invalid = not known
	Received, Sent uint64         // bytes of WireGuard datagrams
	Rejected       uint64         // handshake messages that WireGuard rejected
	AnnouncedMTU   int            // inner MTU of the far end; 0 = unknown
	PathMTU        int            // the inner MTU if a packet of that size has reached the far end within 15 s; else 0

	Egress, Ingress *gateway.Counters
}

// Status returns the state of every link.
func (f *Fabric) Status() []LinkStatus {
	now := f.clock.now()
	links := *f.links.Load()
	all := make([]LinkStatus, len(links))
	buckets := f.devices.Load()
	for i, l := range links {
		all[i] = l.status(now)
		all[i].Active, all[i].Share = l.active.Load(), buckets.share(l.tun)
	}
	return all
}

// LinksUp returns the links that are up, in order. It does not query WireGuard, so it is cheap
// enough to be called often.
func (f *Fabric) LinksUp() (up []LinkIdentity) {
	now := f.clock.now()
	for _, l := range *f.links.Load() {
		if fit, _ := l.fit(now); fit != down {
			up = append(up, l.identity())
		}
	}
	return up
}

func (l *Link) identity() LinkIdentity {
	name := l.label.Load()
	return LinkIdentity{name.name, name.gateway, config.Key(l.key.own), config.Key(l.key.remote)}
}

func (l *Link) status(now time.Time) LinkStatus {
	s := LinkStatus{LinkIdentity: l.identity(), Egress: &l.tun.Egress.Counters, Ingress: &l.tun.Ingress.Counters}
	known := l.session()
	s.Rejected = l.rejected.Load()
	s.LastHandshake, s.Endpoint, s.Received, s.Sent = known.handshake, known.endpoint, known.received, known.sent
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.prober
	l.listen()
	p.expire(now)
	s.Up, s.RTT, s.ProbesSent, s.ProbesLost, s.AnnouncedMTU = p.up(now), p.rtt, p.sent, p.lost, int(p.mtu)
	s.PathMTU = p.path.carries(l.tun.gateway.Table().MTU(), now)
	return s
}

// fitness ranks links for forwarding.
type fitness int

const (
	down   fitness = iota
	ending         // up, but its far end is about to end it
	up
)

// fit returns the fitness of the link, and since when it has been up, if it is.
func (l *Link) fit(now time.Time) (fitness, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen()
	return l.prober.fit(now), l.prober.upSince
}

// steady returns how long the link had been up when both directions last worked.
func (l *Link) steady() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prober.proven().Sub(l.prober.upSince)
}

// fit returns the fitness of the link.
func (p *prober) fit(now time.Time) fitness {
	switch {
	case !p.up(now):
		return down
	case p.leaving:
		return ending
	}
	return up
}

// due reports whether a tick of the link is due, when the gateway has one. active says whether data crosses the gateway. It sends to
// the remote gateway of its own ordinal, so that data crosses few of its links. A link that begins to rest says so at once. Only
// for the goroutine that probes.
func (l *Link) due(active bool, now time.Time) bool {
	used := l.use.recent(l.tun.crossed(), now)
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.prober
	rested := p.resting
	p.pace(active && used, now)
	return p.resting && !rested || now.Sub(p.ticked) >= p.interval()-activeProbeInterval/2
}

// use is when data last crossed a link; zero = never.
type use struct {
	packets uint64
	at      time.Time
}

// recent reports whether data has crossed within gateway.ActiveFor. packets is how many have until now.
func (u *use) recent(packets uint64, now time.Time) bool {
	if packets != u.packets {
		*u = use{packets, now}
	}
	return now.Sub(u.at) < gateway.ActiveFor
}

// expires returns when the state of the link may change next; see prober.expires.
func (l *Link) expires(now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prober.expires(now)
}

// taken is what a probe of the far end meant.
type taken struct {
	changed  bool          // the fitness of the link is another than before
	answered bool          // it was an answer to a request
	leaves   bool          // the far end says for the first time that it is about to end the link
	owes     bool          // a request is due
	rtt      time.Duration // if measured
	measured bool          // it was an answer that gave a round trip
	silence  time.Duration // for an answer
	interval time.Duration // likewise
}

// tick returns the probe that is due at a tick, if any.
func (l *Link) tick(mtu int, leaving bool, now time.Time) (due probe, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen()
	forwarded, _ := l.tun.Egress.Forwarded()
	return l.prober.tick(mtu, forwarded, leaving, now)
}

// took processes a probe of the far end.
func (l *Link) took(p probe, now time.Time) (t taken) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen()
	before, left, measured := l.prober.fit(now), l.prober.leaving, l.prober.measured
	l.prober.told(p, now)
	t.answered = p.kind != probeAsk && p.kind != probeStatement && l.prober.answer(p, now)
	t.changed = l.prober.fit(now) != before
	t.leaves = l.prober.leaving && !left
	t.rtt, t.measured = l.prober.rtt, l.prober.measured != measured
	t.owes, t.silence, t.interval = l.prober.owesQuestion(now), l.prober.silence(now), l.prober.interval()
	return t
}

// silence returns for how long nothing of the far end has arrived.
func (l *Link) silence(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listen()
	return l.prober.silence(now)
}

// settle notes whether the link is up, logs a change, and reports one.
func (l *Link) settle(now time.Time) (changed, up bool) {
	l.mu.Lock()
	l.listen()
	l.prober.settle(now)
	up, rtt, unproven, silence := !l.prober.failed, l.prober.rtt, now.Sub(l.prober.proven()), l.prober.silence(now)
	changed = up != l.wasUp
	l.wasUp = up
	l.mu.Unlock()
	if !up {
		l.lookAgain()
	}
	switch {
	case changed && up:
		l.logger().Info("link is up", "rtt", rtt)
	case changed:
		l.logger().Warn("link is down: no probe was answered", "for", unproven.Round(time.Millisecond), "received", silence)
	}
	return changed, up
}
