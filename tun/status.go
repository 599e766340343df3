package tun

import (
	"net/netip"
	"time"

	"strait.dev/strait/gateway"
)

// LinkStatus is how one link is doing.
type LinkStatus struct {
	Name           string
	Up             bool          // a probe has crossed both ways lately
	Active         bool          // traffic from nodes goes through it
	RTT            time.Duration // of the last probe that came back; 0 = none yet
	ProbesSent     uint64
	ProbesLost     uint64
	LastHandshake  time.Time      // zero = never
	Endpoint       netip.AddrPort // where the peer answers from; invalid = not known
	Received, Sent uint64         // bytes of WireGuard datagrams
	AnnouncedMTU   int            // inner MTU of the far end; 0 = unknown

	Egress, Ingress *gateway.Counters
}

// Status says how every link is doing.
func (f *Fabric) Status() []LinkStatus {
	now := time.Now()
	links := *f.links.Load()
	all := make([]LinkStatus, len(links))
	for i, l := range links {
		all[i] = l.status(now)
		all[i].Active = f.active.Load() == l
	}
	return all
}

func (l *Link) status(now time.Time) LinkStatus {
	s := LinkStatus{Name: l.config.Name, Egress: &l.tun.Egress.Counters, Ingress: &l.tun.Ingress.Counters}
	known := l.session()
	s.LastHandshake, s.Endpoint, s.Received, s.Sent = known.handshake, known.endpoint, known.received, known.sent
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.prober
	p.expire(now)
	s.Up, s.RTT, s.ProbesSent, s.ProbesLost, s.AnnouncedMTU = p.up(now), p.rtt, p.sent, p.lost, int(p.mtu)
	return s
}

func (l *Link) isUp(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.prober.up(now)
}

// logChange writes one line when a link comes up or goes down.
func (l *Link) logChange(now time.Time) {
	l.mu.Lock()
	up, rtt := l.prober.up(now), l.prober.rtt
	changed := up != l.wasUp
	l.wasUp = up
	l.mu.Unlock()
	switch {
	case changed && up:
		l.log.Info("link is up", "rtt", rtt)
	case changed:
		l.log.Warn("link is down: no probe has come back", "for", probeLost)
	}
}
