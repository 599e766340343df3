package tun

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// probe asks every link twice a second and elects the active one.
func (f *Fabric) probe(ctx context.Context) {
	for sleep(ctx, probeInterval) {
		now := time.Now()
		for _, l := range *f.links.Load() {
			if l.contactable() {
				f.ask(l, now)
				l.logChange(now)
			}
		}
		f.mu.Lock()
		f.elect(now)
		f.mu.Unlock()
		f.announce()
	}
}

// ask sends one question over a link.
func (f *Fabric) ask(l *Link, now time.Time) {
	l.mu.Lock()
	q := l.prober.ask(f.Gateway.Table().MTU(), now)
	l.mu.Unlock()
	f.sendProbe(q, l)
}

func (f *Fabric) sendProbe(p probe, l *Link) {
	// A probe that cannot be sent is a probe that is lost, and counted as such.
	_, _ = f.probes.WriteTo(p.append(nil), &net.UDPAddr{IP: l.prober.address.AsSlice(), Port: probePort})
}

// receiveProbes answers the far ends' questions and takes their answers.
func (f *Fabric) receiveProbes() {
	b := make([]byte, 2048)
	for {
		n, from, err := f.probes.ReadFrom(b)
		if err != nil {
			return // closed
		}
		p, ok := parseProbe(b[:n])
		address, isUDP := from.(*net.UDPAddr)
		if !ok || !isUDP {
			continue
		}
		l := f.linkOf(address.AddrPort().Addr().WithZone(""))
		if l == nil {
			continue
		}
		now := time.Now()
		l.mu.Lock()
		l.prober.mtu = p.mtu
		answered := p.kind == probeAnswer && l.prober.answer(p, now)
		rtt, owes := l.prober.rtt, l.prober.owesQuestion(now)
		l.mu.Unlock()
		switch {
		case p.kind == probeAsk && l.contactable():
			f.sendProbe(probe{kind: probeAnswer, mtu: uint16(f.Gateway.Table().MTU()), sequence: p.sequence}, l)
			if owes {
				f.ask(l, now) // the far end is there: no need to wait for our turn
			}
		case answered:
			l.logChange(now)
			if f.options.ObserveRTT != nil {
				f.options.ObserveRTT(l.config.Name, rtt)
			}
		}
	}
}

// linkOf is the link whose far end has a link address, or nil.
func (f *Fabric) linkOf(address netip.Addr) *Link {
	for _, l := range *f.links.Load() {
		if l.prober.address == address {
			return l
		}
	}
	return nil
}

// announce reports a change of the smallest MTU that far ends announced.
func (f *Fabric) announce() {
	smallest := 0
	for _, l := range *f.links.Load() {
		l.mu.Lock()
		if m := int(l.prober.mtu); m != 0 && (smallest == 0 || m < smallest) {
			smallest = max(m, minAnnouncedMTU)
		}
		l.mu.Unlock()
	}
	if smallest != f.mtu {
		f.mtu = smallest
		if f.options.AnnounceMTU != nil {
			f.options.AnnounceMTU(smallest)
		}
	}
}
