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
				f.askPath(l, now)
				l.logChange(now)
			}
		}
		f.mu.Lock()
		if ctx.Err() == nil { // else the links are closed
			f.elect(now)
		}
		f.mu.Unlock()
		f.announce()
	}
}

// ask sends one question over a link.
func (f *Fabric) ask(l *Link, now time.Time) {
	l.mu.Lock()
	q := l.prober.ask(f.Gateway.Table().MTU(), now)
	l.mu.Unlock()
	f.sendProbe(q, l, 0)
}

// askPath sends a question of the size of the MTU when it is time for one. The size is
// the MTU of the host's interface: a larger packet would leave in fragments.
func (f *Fabric) askPath(l *Link, now time.Time) {
	mtu := f.host.mtu()
	l.mu.Lock()
	owes := l.prober.owesPath(mtu, now)
	var q probe
	if owes {
		q = l.prober.askPath(mtu, now)
	}
	l.mu.Unlock()
	if owes {
		f.sendProbe(q, l, mtu)
	}
}

// sendProbe sends a probe in a packet of at least size bytes.
func (f *Fabric) sendProbe(p probe, l *Link, size int) {
	b := p.append(nil)
	if padding := size - probeHeaders - len(b); padding > 0 {
		b = append(b, make([]byte, padding)...)
	}
	// A probe that cannot be sent is a probe that is lost, and counted as such.
	_, _ = l.listener.probes.WriteTo(b, &net.UDPAddr{IP: l.prober.address.AsSlice(), Port: probePort})
}

// receiveProbes answers the far ends' questions and takes their answers, at one of
// the host's link addresses, until that is closed.
func (f *Fabric) receiveProbes(e *linkListener) {
	b := make([]byte, probeLen) // the rest is padding, or of later versions
	for {
		n, from, err := e.probes.ReadFrom(b)
		if err != nil {
			return // closed
		}
		p, ok := parseProbe(b[:n])
		address, isUDP := from.(*net.UDPAddr)
		if !ok || !isUDP {
			continue
		}
		l := f.linkBetween(e.address, address.AddrPort().Addr().WithZone(""))
		if l == nil {
			continue
		}
		now := time.Now()
		l.mu.Lock()
		l.prober.mtu = p.mtu
		was := l.prober.leaving
		answered := p.kind != probeAsk && l.prober.answer(p, now)
		leaves := l.prober.leaving && !was
		rtt, owes := l.prober.rtt, l.prober.owesQuestion(now)
		l.mu.Unlock()
		switch {
		case p.kind == probeAsk && l.contactable():
			f.sendProbe(probe{kind: f.answerKind(), mtu: uint16(f.Gateway.Table().MTU()), sequence: p.sequence}, l, 0)
			if owes {
				f.ask(l, now) // the far end is there: no need to wait for our turn
			}
		case answered:
			l.logChange(now)
			if leaves {
				l.logger().Info("the far end is about to end")
			}
			f.askPath(l, now)
			if f.options.ObserveRTT != nil {
				f.options.ObserveRTT(l.label.Load().name, rtt)
			}
		}
	}
}

// Leave tells the far ends from now on, whenever they ask, that this gateway is about to
// end. Packets cross as before.
func (f *Fabric) Leave() { f.leaving.Store(true) }

func (f *Fabric) answerKind() uint8 {
	if f.leaving.Load() {
		return probeLeaving
	}
	return probeAnswer
}

// linkBetween is the link whose ends have these link addresses, or nil.
func (f *Fabric) linkBetween(own, far netip.Addr) *Link {
	for _, l := range *f.links.Load() {
		if l.own == own && l.prober.address == far {
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
