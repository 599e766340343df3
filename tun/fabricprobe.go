package tun

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// probe probes every link regularly, and acts on a change of their state when it happens.
func (f *Fabric) probe(ctx context.Context) {
	f.clock.schedule(ctx, f.changed, f.tick, func(now time.Time) time.Time { return f.decide(ctx, now) })
}

// tick sends the probe that is due over each link, and returns the time until the next ones: one of a link that data crosses, if
// data crosses the gateway.
func (f *Fabric) tick(now time.Time) (wait time.Duration) {
	active := f.Gateway.Active(time.Now())
	for _, l := range *f.links.Load() {
		if l.due(active, now) && l.contactable() {
			if p, due := l.tick(f.ownMTU(), f.leaving.Load(), now); due {
				f.sendProbe(p, l, 0)
			}
			f.askPath(l, now)
		}
	}
	return intervalOf(active)
}

// decide notes the state of each link, elects those that carry packets, and tells nodes. It returns when the state of a link
// changes next if nothing arrives; zero = not before the next probe.
func (f *Fabric) decide(ctx context.Context, now time.Time) (next time.Time) {
	moved := false
	for _, l := range *f.links.Load() {
		changed, up := l.settle(now)
		if changed && !up {
			f.ask(l, now) // tells the far end how long nothing has arrived
		}
		moved = moved || changed
		next = earliest(next, l.expires(now))
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
	return next
}

// linkChanged makes the probing goroutine decide at once.
func (f *Fabric) linkChanged() {
	select {
	case f.changed <- struct{}{}:
	default: // it is about to
	}
}

// ask sends a request over a link.
func (f *Fabric) ask(l *Link, now time.Time) {
	l.mu.Lock()
	l.listen()
	q := l.prober.ask(f.ownMTU(), now)
	l.mu.Unlock()
	f.sendProbe(q, l, 0)
}

// askPath sends the probes of the path that are due.
func (f *Fabric) askPath(l *Link, now time.Time) {
	own, ceiling := f.ownMTU(), f.Gateway.Table().LocalMTU()
	l.mu.Lock()
	l.listen()
	due := l.prober.askPath(own, ceiling, now)
	l.mu.Unlock()
	for _, p := range due {
		f.sendProbe(p.probe, l, p.size)
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
func (f *Fabric) sendProbe(p probe, l *Link, size int) {
	b := p.append(nil)
	if padding := max(size, probeSize) - probeHeaders - len(b); padding > 0 {
		b = append(b, make([]byte, padding)...)
	}
	b = packet.AppendUDP(nil, netip.AddrPortFrom(l.own, probePort), netip.AddrPortFrom(l.prober.address, probePort), b)
	if l.tun.inject(&f.host.origin.Counters, b, controlPacket) { // one that is dropped counts as lost
		f.host.origin.CountForwarded(1, uint64(len(b)))
	}
}

// takeProbe takes a packet from a link's tunnel that is a probe, and reports whether it is one.
func (f *Fabric) takeProbe(b []byte, l *Link) bool {
	if !l.isProbe(b) {
		return false
	}
	if p, ok := parseProbe(b[probeHeaders:]); ok {
		f.receiveProbe(p, l)
	}
	return true
}

// receiveProbe answers a probe of the far end, or processes its answer. The goroutine that decrypts calls it, so WireGuard has
// an address for the peer. Nothing in it waits: WireGuard holds the lock of its settings while it closes or removes a peer, and
// waits for that goroutine to end.
func (f *Fabric) receiveProbe(p probe, l *Link) {
	now := f.clock.now()
	r := l.took(p, now)
	if r.changed {
		f.linkChanged()
	}
	if r.leaves {
		l.logger().Info("the far end is about to end the link")
	}
	switch {
	case p.kind == probeAsk:
		f.sendProbe(probe{kind: f.answerKind(l), mtu: uint16(f.ownMTU()), sequence: p.sequence, silence: r.silence, interval: r.interval}, l, 0)
		if r.owes {
			f.ask(l, now) // the far end is up: do not wait for the next tick
		}
	case r.answered:
		f.askPath(l, now)
		if r.measured && f.options.ObserveRTT != nil {
			f.options.ObserveRTT(l.label.Load().name, r.rtt)
		}
	}
}

// Leave makes all further answers and statements tell the far ends and the nodes that this gateway is
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

// wokenInterval is the time between two batches of nodes that are told to probe more often.
const wokenInterval = 20 * time.Millisecond

// tellWoken tells nodes whose data begins to cross to probe more often, until ctx ends.
func (f *Fabric) tellWoken(ctx context.Context) {
	batch := underlay.NewBatch(restateBatch)
	send := f.sendAgain(batch)
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-f.Gateway.Woken():
			f.Gateway.RestateWoken(first, time.Now(), send)
			batch.Flush()
		}
		if !sleep(ctx, wokenInterval) {
			return
		}
	}
}

func (f *Fabric) answerKind(l *Link) uint8 {
	if f.leaving.Load() || l.ending.Load() {
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

// announce reports a change of the smallest MTU that far ends announce and paths carry. While no link has an announcement,
// because all were replaced, the last one holds: nodes would otherwise change their routes twice.
func (f *Fabric) announce(now time.Time) {
	smallest := 0
	links := *f.links.Load()
	for _, l := range links {
		l.mu.Lock()
		if m := int(l.prober.mtu); m != 0 && (smallest == 0 || m < smallest) {
			smallest = max(m, minAnnouncedMTU)
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
		up, of := l.prober.up(now), l.prober.path.limit
		settled := l.prober.path.settled
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
