package tun

import (
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/link"
	"strait.dev/strait/underlay"
)

// member is a remote gateway: its links are alternatives.
type member struct {
	links  []*Link
	link   *Link // the one in use
	fit    link.Fitness
	steady time.Duration // how long link had been up when both directions last worked
	lane   *lane
}

// devices are the devices that send the packets of nodes by the bucket of the frame, and those of the
// gateway's own host by a hash of the flow.
type devices [underlay.Buckets]*Device

// share returns the share of the flows that a device sends; all may be nil.
func (all *devices) share(d *Device) float64 {
	n := 0
	if all != nil {
		for _, other := range all {
			if other == d {
				n++
			}
		}
	}
	return float64(n) / underlay.Buckets
}

// elect decides which links carry packets from nodes, and directs the packets to them: to all remote
// gateways whose link is up, or else to those that are ending, or else to one. Each has a lane, and one
// of its links reads it; links that carry nothing hand over what their lane still has.
//
// elect is to be called whenever the fitness of a link changes, and from time to time. It is idempotent
// and cheap while nothing changes. f.mu is held.
func (f *Fabric) elect(now time.Time) {
	if f.closed {
		return
	}
	members := f.members()
	spare, ok := f.assign(members)
	if !ok {
		f.elect(now) // with one member
		return
	}
	for _, m := range members {
		var present *Link
		if slices.Contains(m.links, m.lane.link) {
			present = m.lane.link
		}
		m.link = choose(m.links, present, now)
		m.fit = m.link.fit(now)
		m.steady = m.link.steady()
		m.lane.weight = int(m.link.weight.Load())
	}
	var kept *lane // of the fallback
	if len(members) == 0 {
		kept, spare = spare[0], spare[1:]
	}
	changed := f.release(members, kept, spare)
	live := carriers(members)
	f.direct(members, live, kept)
	f.appoint(members, live, now)
	f.hand(changed) // only now: a device must know whether it carries what it reads
	f.pin(members)
	f.claim(now)
	f.retire(spare, kept)
}

// members returns the remote gateways in the order of their first links.
func (f *Fabric) members() (all []*member) {
	for _, l := range *f.links.Load() {
		i := slices.IndexFunc(all, func(m *member) bool {
			return f.single || m.links[0].alternative(l)
		})
		if i < 0 {
			i = len(all)
			all = append(all, new(member))
		}
		all[i].links = append(all[i].links, l)
	}
	return all
}

// assign gives each member a lane: the one that one of its links reads, else one that no member uses,
// else a new one. It returns the lanes left over. It reports false if no lane can be opened: then there
// is one member from now on, with all links.
func (f *Fabric) assign(members []*member) (spare []*lane, ok bool) {
	spare = without(f.Overlay.lanes, f.retired)
	take := func(m *member, usable func(*lane) bool) {
		if i := slices.IndexFunc(spare, usable); i >= 0 {
			m.lane = spare[i]
			spare = slices.Delete(spare, i, i+1)
		}
	}
	for _, m := range members {
		take(m, func(l *lane) bool { return slices.Contains(m.links, l.link) })
	}
	for _, m := range members {
		if m.lane == nil {
			take(m, func(*lane) bool { return true })
		}
		if m.lane != nil {
			continue
		}
		l, err := f.Overlay.openLane()
		if err != nil {
			f.options.Log.Warn("cannot open more sockets for frames from nodes: one link carries all packets", "error", err)
			f.single = true
			return nil, false
		}
		m.lane = l
	}
	return spare, true
}

// release sets the link that is to read each lane: the chosen one of its member, none for the lane kept,
// which the fallback reads, and for spare ones. It returns the lanes that change hands, which no device
// reads until hand.
func (f *Fabric) release(members []*member, kept *lane, spare []*lane) (changed []*lane) {
	change := func(l *lane, link *Link) {
		if l.link != link {
			f.failed(f.reader(l).serve(nil))
			l.link = link
			changed = append(changed, l)
		}
	}
	for _, m := range members {
		if m.lane.link == nil {
			f.failed(f.fallback.serve(nil))
		}
		change(m.lane, m.link)
	}
	for _, l := range spare {
		change(l, nil)
	}
	if kept != nil {
		change(kept, nil)
	}
	return slices.DeleteFunc(changed, func(l *lane) bool { return slices.Contains(spare, l) })
}

// hand makes devices read lanes.
func (f *Fabric) hand(lanes []*lane) {
	for _, l := range lanes {
		f.failed(f.reader(l).serve(l))
	}
}

// reader returns the device that reads a lane.
func (f *Fabric) reader(l *lane) *Device {
	if l.link == nil {
		return f.fallback
	}
	return l.link.tun
}

func (f *Fabric) failed(err error) {
	if err != nil {
		f.options.Log.Error("cannot read the overlay", "error", err)
	}
}

// carriers returns the members that carry packets. One that comes up while others carry packets does so
// once it has settled.
func carriers(members []*member) (live []*member) {
	best := link.Down
	for _, m := range members {
		best = max(best, m.fit)
	}
	for _, m := range members {
		if m.fit == best && (best != link.Up || m.lane.live || m.steady >= settled) {
			live = append(live, m)
		}
	}
	switch {
	case best != link.Down && len(live) > 0:
		return live
	case best != link.Down:
		return slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m.fit != best })
	case len(members) == 0:
		return nil
	}
	at := max(slices.IndexFunc(members, func(m *member) bool { return m.lane.live }), 0)
	return members[at : at+1]
}

// direct makes the kernel direct the frames of nodes to the lanes that are live.
func (f *Fabric) direct(members, live []*member, kept *lane) {
	lanesOf := func(members []*member) (lanes []*lane) {
		for _, m := range members {
			lanes = append(lanes, m.lane)
		}
		if len(lanes) == 0 {
			lanes = []*lane{kept}
		}
		return lanes
	}
	f.spread.share(lanesOf(members))
	if !f.spread.move(lanesOf(live)) && !f.undirected {
		return
	}
	err := f.Overlay.direct(&f.spread.now)
	f.undirected = err != nil
	if err != nil {
		f.options.Log.Error("cannot direct frames from nodes to links", "error", err)
	}
}

// appoint tells the devices whether they carry what they read, and which devices lead to the other remote
// gateways.
func (f *Fabric) appoint(members, live []*member, now time.Time) {
	var instead *Device
	if len(live) > 0 {
		instead = live[0].link.tun
	}
	f.fallback.instead.Store(instead)
	for _, m := range members {
		m.lane.live = slices.Contains(live, m)
		for _, l := range m.links {
			sends := m.lane.live && l == m.link
			if sends {
				l.tun.instead.Store(nil)
				l.tun.setOthers(members)
			} else {
				l.tun.instead.Store(instead)
				l.tun.setOthers(nil) // it hands over what its lane still has: a moment
			}
			active := sends && slices.Contains(f.spread.now[:], m.lane)
			if l.active.Swap(active) != active {
				l.logActive(active, now)
			}
		}
	}
	if len(live) == 0 {
		f.devices.Store(nil)
		return
	}
	var next devices // not new: nearly always it is what it was
	for bucket, l := range f.spread.now {
		next[bucket] = l.link.tun
	}
	if before := f.devices.Load(); before == nil || *before != next {
		changed := next
		f.devices.Store(&changed)
	}
}

// logActive logs that a link carries packets from nodes, or no longer.
func (l *Link) logActive(active bool, now time.Time) {
	switch {
	case !active:
		l.logger().Info("link is no longer active")
	case l.fit(now) == link.Down: // until a probe comes back, "link is up" is still to be logged
		l.logger().Debug("link is selected, and has not answered yet")
	default:
		l.logger().Info("link is active")
	}
}

// retire makes the fallback read what lanes that no member uses still hold, one after the other, and closes
// those that are empty. The lane kept comes first. f.mu is held.
func (f *Fabric) retire(lanes []*lane, kept *lane) {
	if len(lanes) > 0 {
		f.failed(f.Overlay.stopReceiving(lanes))
		f.retired = append(f.retired, lanes...)
	}
	f.retired = slices.DeleteFunc(f.retired, func(l *lane) bool {
		empty := l.empty()
		if empty {
			if f.fallback.lane.Load() == l {
				f.failed(f.fallback.serve(nil))
			}
			f.failed(f.Overlay.closeLane(l))
		}
		return empty
	})
	next := kept
	if next == nil && len(f.retired) > 0 {
		next = f.retired[0]
	}
	f.failed(f.fallback.serve(next))
}

// deviceFor returns the device for a packet from the host: for link addresses that of the link between
// them, for an address that a remote gateway owns that of its link, else that of the flow.
func (f *Fabric) deviceFor(src, dst netip.Addr, flow uint32) *Device {
	if dst.IsLinkLocalUnicast() {
		if l := f.linkBetween(src, dst); l != nil {
			return l.tun
		}
		return nil
	}
	if owner, owned := f.Gateway.Owner(dst); owned {
		d, _ := owner.(*Device)
		return d
	}
	if all := f.devices.Load(); all != nil {
		return all[flow%underlay.Buckets]
	}
	return nil
}
