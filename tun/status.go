package tun

import (
	"net/netip"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
	"strait.dev/strait/underlay"
)

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
	now, mtu, flows := f.clock.now(), f.Gateway.Table().MTU(), f.director.routing.Load()
	var all []LinkStatus
	for _, l := range f.links.all() {
		p, path := l.state.copies()
		peer := l.wg.session()
		all = append(all, LinkStatus{
			LinkIdentity: l.identity(), Up: p.Fit(now) != link.Down, Active: l.active.Load(), Share: flows.share(l.tun),
			RTT: p.RTT, ProbesSent: p.Sent, ProbesLost: p.Lost,
			LastHandshake: peer.handshake, Endpoint: peer.endpoint, Received: peer.received, Sent: peer.sent, Rejected: l.wg.rejected.Load(),
			AnnouncedMTU: int(p.Last.MTU), PathMTU: path.Carries(mtu, now),
			Egress: &l.tun.Egress.Counters, Ingress: &l.tun.Ingress.Counters,
		})
	}
	return all
}

// LinksUp returns the links that are up, in order. It does not query WireGuard, so it is cheap
// enough to be called often.
func (f *Fabric) LinksUp() (up []LinkIdentity) {
	now := f.clock.now()
	for _, l := range f.links.all() {
		if l.state.fit(now) != link.Down {
			up = append(up, l.identity())
		}
	}
	return up
}

// Counters are the counters of a gateway apart from those of its links.
type Counters struct {
	Overlay   OverlayCounters   // datagrams from nodes
	WireGuard underlay.Counters // datagrams between the network and WireGuard
	Fallback  *gateway.Counters // packets that nodes send while there is no link
	Host      *gateway.Counters // packets that the host itself sends
	Gaps      Gaps
}

// Counters returns what was counted so far.
func (f *Fabric) Counters() Counters {
	return Counters{
		Overlay: f.Overlay.counters(), WireGuard: f.mux.Counters(),
		Fallback: &f.director.fallback.Egress.Counters, Host: &f.host.origin.Counters, Gaps: f.clock.gapsSoFar(),
	}
}
