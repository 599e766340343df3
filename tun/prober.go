package tun

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// probe probes every link regularly, and acts on a change of their state when it happens.
func (f *Fabric) probe(ctx context.Context) {
	ticks := time.NewTicker(link.Interval)
	defer ticks.Stop()
	for {
		now := f.clock.now()
		f.decide(ctx, now)
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			f.tick(f.clock.now())
		case <-f.changed:
		}
	}
}

// tick sends the probes that are due.
func (f *Fabric) tick(now time.Time) {
	f.mu.Lock()
	ending := slices.Clone(f.ending)
	f.mu.Unlock()
	mtu := f.ownMTU()
	for _, l := range *f.links.Load() {
		if l.contactable() {
			f.sendProbe(l.tick(mtu, f.leaving.Load(), now), l, 0)
			f.askPath(l, now)
		}
	}
	for _, l := range ending {
		f.sendProbe(l.tick(mtu, true, now), l, 0)
	}
}

// decide notes the state of each link, elects those that carry packets, and tells nodes.
func (f *Fabric) decide(ctx context.Context, now time.Time) {
	moved := false
	for _, l := range *f.links.Load() {
		changed, _ := l.settle(now)
		moved = moved || changed
	}
	if moved && f.options.LinksChanged != nil {
		f.options.LinksChanged()
	}
	f.mu.Lock()
	if ctx.Err() == nil { // else the links are closed
		f.closeEnded(now)
		f.elect(now)
	}
	f.mu.Unlock()
	f.updateState(now)
	f.announce(now)
}

// linkChanged makes the probing goroutine decide at once.
func (f *Fabric) linkChanged() {
	select {
	case f.changed <- struct{}{}:
	default: // it is about to
	}
}

// askPath sends the probes of the path that are due.
func (f *Fabric) askPath(l *Link, now time.Time) {
	for _, size := range l.askPath(f.Gateway.Table().LocalMTU(), now) {
		if size != 0 {
			f.sendProbe(link.Probe{Kind: link.AskSize, MTU: uint16(f.ownMTU()), Sequence: uint64(size)}, l, size)
		}
	}
}

// ownMTU returns the inner MTU that this end announces: what its interfaces and its paths carry.
func (f *Fabric) ownMTU() int {
	own := f.Gateway.Table().LocalMTU()
	if limit := int(f.pathLimit.Load()); limit != 0 {
		own = min(own, limit)
	}
	return own
}

// sendProbe sends a probe in a packet of at least size bytes. It does not pass the host's stack, which would fragment a packet
// that is larger than the MTU in use.
func (f *Fabric) sendProbe(p link.Probe, l *Link, size int) {
	b := p.Append(nil)
	if padding := max(size, probeSize) - probeHeaders - len(b); padding > 0 {
		b = append(b, make([]byte, padding)...)
	}
	b = packet.AppendUDP(nil, netip.AddrPortFrom(l.own, probePort), netip.AddrPortFrom(l.far, probePort), b)
	if l.tun.inject(&f.host.origin.Counters, b, controlPacket) { // the far end counts one that is dropped as lost
		f.host.origin.CountForwarded(1, uint64(len(b)))
	}
}

// takeProbe takes a packet from a link's tunnel that is a probe, and reports whether it is one.
func (f *Fabric) takeProbe(b []byte, l *Link) bool {
	if !l.isProbe(b) {
		return false
	}
	if p, ok := link.ParseProbe(b[probeHeaders:]); ok {
		f.receiveProbe(p, l)
	}
	return true
}

// receiveProbe processes a probe of the far end. The goroutine that decrypts calls it, so WireGuard has
// an address for the peer. Nothing in it waits: WireGuard holds the lock of its settings while it closes or removes a peer, and
// waits for that goroutine to end.
func (f *Fabric) receiveProbe(p link.Probe, l *Link) {
	now := f.clock.now()
	switch p.Kind {
	case link.AskSize:
		f.sendProbe(link.Probe{Kind: link.SizeArrived, MTU: uint16(f.ownMTU()), Sequence: p.Sequence}, l, 0)
		return
	case link.SizeArrived:
		l.crossed(int(min(p.Sequence, packet.MaxLen)), now)
		f.askPath(l, now)
		return
	}
	r := l.took(p, now)
	if r.changed {
		f.linkChanged()
	}
	if r.leaves {
		l.logger().Info("the far end is about to end the link")
	}
	if r.rtt != 0 && f.options.ObserveRTT != nil {
		f.options.ObserveRTT(l.label.Load().name, r.rtt)
	}
}

// Leave makes all further probes and answers tell the far ends and the nodes that this gateway is
// shutting down. Packets are forwarded as before.
func (f *Fabric) Leave() {
	f.leaving.Store(true)
	f.updateState(f.clock.now())
}

// updateState determines the state that nodes are told: whether a link forwards. A change is told
// at once.
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
	if f.Gateway.SetState(state, time.Now().Add(clockPause)) {
		f.restate()
	}
}

// restateBatch is how many nodes are told a state with one system call.
const restateBatch = 64

func (f *Fabric) restate() {
	batch := underlay.NewBatch(restateBatch)
	f.Gateway.Restate(time.Now(), f.sendAgain(batch))
	batch.Flush()
}

// sendAgain returns a function that adds another answer to a batch.
func (f *Fabric) sendAgain(batch *underlay.Batch) func(gateway.Result) {
	batch.NeverWait() // a node that this does not reach probes again soon
	return func(r gateway.Result) {
		f.Overlay.send(f.Overlay.tapping.now.Load(), batch, &r, r.AnswerHeader, r.Answer)
	}
}

// linkBetween returns the link between these link addresses, or nil.
func (f *Fabric) linkBetween(own, far netip.Addr) *Link {
	for _, l := range *f.links.Load() {
		if l.own == own && l.far == far {
			return l
		}
	}
	return nil
}

// announce reports a change of the smallest MTU that far ends announce and paths carry. While no link has an announcement,
// because all were replaced, the last one holds: nodes would otherwise change their routes twice.
func (f *Fabric) announce(now time.Time) {
	smallest := 0
	links := *f.links.Load()
	for _, l := range links {
		l.mu.Lock()
		if m := int(l.prober.Last.MTU); m != 0 && (smallest == 0 || m < smallest) {
			smallest = max(m, link.MinMTU)
		}
		l.mu.Unlock()
	}
	limit := f.limitPath(now)
	if smallest == 0 && len(links) > 0 {
		return
	}
	if limit != 0 && (smallest == 0 || limit < smallest) {
		smallest = limit
	}
	if smallest != f.mtu {
		f.mtu = smallest
		if f.options.AnnounceMTU != nil {
			f.options.AnnounceMTU(smallest)
		}
	}
}

// limitPath determines the largest packet that the paths of all links carry, 0 if they carry what the interfaces do. The
// last limit holds while no link is up, and until links that came up have found theirs.
func (f *Fabric) limitPath(now time.Time) (limit int) {
	before := int(f.pathLimit.Load())
	known := false
	for _, l := range *f.links.Load() {
		l.mu.Lock()
		up, of := l.prober.Fit(now) != link.Down, l.path.Limit
		settled := l.path.Settled
		l.mu.Unlock()
		if !up {
			continue
		}
		if known = true; !settled && of == 0 {
			of = before
		}
		if of != 0 && (limit == 0 || of < limit) {
			limit = of
		}
	}
	if !known {
		return before
	}
	if limit != before {
		f.pathLimit.Store(int64(limit))
		if limit == 0 {
			f.options.Log.Info("packets of all sizes cross to the remote cluster again", "mtu", f.Gateway.Table().LocalMTU())
		} else {
			f.options.Log.Warn("the path to the remote cluster drops larger packets than its interfaces carry", "carries", limit, "interfaces", f.Gateway.Table().LocalMTU())
		}
	}
	return limit
}
