package tun

import (
	"bytes"
	"time"

	"strait.dev/strait/link"
	"strait.dev/strait/packet"
)

// prober exchanges probes and claims with the far ends of links. Its methods but tick are called on the goroutines that
// decrypt, for which WireGuard waits while it holds the lock of its settings: nothing in them waits.
type prober struct {
	links   *linkList
	mtu     *mtus
	clock   *clock
	observe func(link string, rtt time.Duration) // nil: no caller wants to know
	changed chan struct{}                        // of capacity 1: what is known of a link has changed
}

// tick sends the probes that are due. ending are links that were removed: they only receive, and tell the far ends so.
func (p *prober) tick(ending []*Link, leaving bool, now time.Time) {
	mtu := p.mtu.own()
	for _, l := range p.links.all() {
		if l.contactable() {
			l.sendProbe(l.state.tick(l.received(), mtu, leaving, now), 0)
			p.askPath(l, now)
		}
	}
	for _, l := range ending {
		l.sendProbe(l.state.tick(l.received(), mtu, true, now), 0)
	}
}

// askPath sends the probes of the path that are due.
func (p *prober) askPath(l *Link, now time.Time) {
	for _, size := range l.state.askPath(p.mtu.gateway.Table().LocalMTU(), now) {
		if size != 0 {
			l.sendProbe(link.Probe{Kind: link.AskSize, MTU: uint16(p.mtu.own()), Sequence: uint64(size)}, size)
		}
	}
}

// sendProbe sends a probe in a packet of at least size bytes.
func (l *Link) sendProbe(p link.Probe, size int) {
	b := p.Append(nil)
	if padding := max(size, datagramSize) - datagramHeaders - len(b); padding > 0 {
		b = append(b, make([]byte, padding)...)
	}
	l.send(probePort, b)
}

// take takes a packet from a link's tunnel that is a probe or a claim, and reports whether it is one. It does not keep b.
func (p *prober) take(b []byte, l *Link) bool {
	port, payload := l.datagram(b)
	switch port {
	case probePort:
		if q, ok := link.ParseProbe(payload); ok {
			p.receive(q, l)
		}
	case claimPort:
		p.receiveClaim(payload, l)
	default:
		return false
	}
	return true
}

// receive processes a probe of the far end.
func (p *prober) receive(q link.Probe, l *Link) {
	now := p.clock.now()
	switch q.Kind {
	case link.AskSize:
		l.sendProbe(link.Probe{Kind: link.SizeArrived, MTU: uint16(p.mtu.own()), Sequence: q.Sequence}, 0)
		return
	case link.SizeArrived:
		l.state.crossed(int(min(q.Sequence, packet.MaxLen)), now)
		p.askPath(l, now)
		return
	}
	r := l.state.took(q, now)
	if r.changed {
		p.notify()
	}
	if r.leaves {
		l.wg.log().Info("the far end is about to end the link")
	}
	if r.rtt != 0 && p.observe != nil {
		p.observe(l.wg.settings.Load().Name, r.rtt)
	}
}

// receiveClaim stores the claim of a far end if it is another one than before. The first of a link takes effect at once.
func (p *prober) receiveClaim(b []byte, l *Link) {
	b = b[:min(len(b), link.MaxClaim)]
	before := l.claim.Load()
	if before != nil && bytes.Equal(*before, b) {
		return
	}
	if _, ok := link.ParseClaim(b); !ok {
		return
	}
	kept := bytes.Clone(b)
	l.claim.Store(&kept)
	if before == nil {
		p.notify()
	}
}

// notify makes the fabric decide at once.
func (p *prober) notify() {
	select {
	case p.changed <- struct{}{}:
	default: // it is about to
	}
}
