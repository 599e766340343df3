package tun

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/nodeprobe"
)

// probe probes every link twice a second and elects the active one.
func (f *Fabric) probe(ctx context.Context) {
	for sleep(ctx, probeInterval) {
		now := f.clock.now()
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
		f.updateState(now)
		f.announce()
	}
}

// ask sends one probe over a link.
func (f *Fabric) ask(l *Link, now time.Time) {
	l.mu.Lock()
	q := l.prober.ask(f.Gateway.Table().MTU(), now)
	l.mu.Unlock()
	f.sendProbe(q, l, 0)
}

// askPath sends a probe of the size of the MTU when one is due. The size is the MTU of the
// host's interface: a larger packet would be fragmented.
func (f *Fabric) askPath(l *Link, now time.Time) {
	mtu := f.host.mtu()
	l.mu.Lock()
	l.listen(now)
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
	if padding := max(size, probeSize) - probeHeaders - len(b); padding > 0 {
		b = append(b, make([]byte, padding)...)
	}
	// A probe that cannot be sent counts as lost.
	_, _ = l.listener.probes.WriteTo(b, &net.UDPAddr{IP: l.prober.address.AsSlice(), Port: probePort})
}

// receiveProbes answers probes of the far ends and processes their answers, at one of the host's
// link addresses, until the listener is closed.
func (f *Fabric) receiveProbes(e *linkListener) {
	b := make([]byte, probeLen) // the rest is padding, or fields of later versions
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
		now := f.clock.now()
		l.mu.Lock()
		l.listen(now)
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
				f.ask(l, now) // the far end is up: do not wait for the next tick
			}
		case answered:
			l.logChange(now)
			if f.Gateway.State() == nodeprobe.NoLinks {
				f.updateState(now)
			}
			if leaves {
				l.logger().Info("the far end is shutting down")
			}
			f.askPath(l, now)
			if f.options.ObserveRTT != nil {
				f.options.ObserveRTT(l.label.Load().name, rtt)
			}
		}
	}
}

// Leave makes all further probe answers tell the far ends and the nodes that this gateway is
// shutting down. Packets are forwarded as before.
func (f *Fabric) Leave() {
	f.leaving.Store(true)
	f.updateState(f.clock.now())
}

// updateState determines the state that nodes are told: whether a link forwards.
func (f *Fabric) updateState(now time.Time) {
	f.stating.Lock()
	defer f.stating.Unlock()
	state := nodeprobe.NoLinks
	switch {
	case f.leaving.Load():
		state = nodeprobe.Leaving
	case slices.ContainsFunc(*f.links.Load(), func(l *Link) bool { alive, _ := l.alive(now); return alive }):
		state = nodeprobe.LinksUp
	}
	f.Gateway.SetState(state)
}

func (f *Fabric) answerKind() uint8 {
	if f.leaving.Load() {
		return probeLeaving
	}
	return probeAnswer
}

// linkBetween returns the link between these link addresses, or nil.
func (f *Fabric) linkBetween(own, far netip.Addr) *Link {
	for _, l := range *f.links.Load() {
		if l.own == own && l.prober.address == far {
			return l
		}
	}
	return nil
}

// announce reports a change of the smallest MTU announced by far ends.
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
