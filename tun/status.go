package tun

import (
	"net/netip"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
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
	Up             bool          // probes cross in both directions, or did within 5 s and packets arrive
	Active         bool          // traffic from nodes goes through it
	Share          float64       // of the flows from nodes, 0 to 1
	RTT            time.Duration // of the last probe that crossed; 0 = none yet
	ProbesSent     uint64
	ProbesLost     uint64         // of the far end, by their sequences
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
	buckets := f.director.devices.Load()
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
		if l.fit(now) != link.Down {
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
	s.Up, s.RTT, s.ProbesSent, s.ProbesLost, s.AnnouncedMTU = p.Fit(now) != link.Down, p.RTT, p.Sent, p.Lost, int(p.Last.MTU)
	s.PathMTU = l.path.Carries(l.tun.gateway.Table().MTU(), now)
	return s
}
