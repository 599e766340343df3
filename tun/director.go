package tun

import (
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strait.dev/strait/gateway"
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

// director decides which links carry packets from nodes, and directs the packets to them. Safe for concurrent use; the
// methods that elect calls hold mu.
type director struct {
	gateway  *gateway.Gateway
	overlay  *Overlay
	links    *linkList
	fallback *Device // reads the overlay while there is no link
	log      *slog.Logger
	devices  atomic.Pointer[devices] // of the host's packets; nil without links

	mu         sync.Mutex // protects the fields below, and who reads the lanes
	closed     bool
	spread     spread
	retired    []*lane              // receive nothing any more, and may hold frames
	owners     map[netip.Addr]owner // of addresses of the remote cluster
	undirected bool                 // the kernel does not use spread yet
	single     bool                 // there can be one lane only
}

// elect directs the packets of nodes to all remote gateways whose link is up, or else to those that are
// ending, or else to one. Each has a lane, and one of its links reads it; links that carry nothing hand
// over what their lane still has. When it returns, removed links read no lane.
//
// elect is to be called whenever links or their fitness change, and from time to time. It is idempotent
// and cheap while nothing changes.
func (d *director) elect(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	links := d.links.all()
	members := d.members(links)
	spare, ok := d.assign(members)
	if !ok { // there is one member from now on
		members = d.members(links)
		spare, _ = d.assign(members) // it takes a lane that is open
	}
	for _, m := range members {
		var present *Link
		if slices.Contains(m.links, m.lane.link) {
			present = m.lane.link
		}
		m.link = choose(m.links, present, now)
		p, _ := m.link.state.copies()
		m.fit, m.steady = p.Fit(now), p.Steady()
		m.lane.weight = m.link.wg.settings.Load().Weight
	}
	var kept *lane // of the fallback
	if len(members) == 0 {
		kept, spare = spare[0], spare[1:]
	}
	changed := d.release(members, kept, spare)
	live := carriers(members)
	d.direct(members, live, kept)
	d.appoint(members, live, now)
	d.hand(changed) // only now: a device must know whether it carries what it reads
	d.pin(members)
	d.retire(spare, kept)
}

// members returns the remote gateways in the order of their first links.
func (d *director) members(links []*Link) (all []*member) {
	for _, l := range links {
		i := slices.IndexFunc(all, func(m *member) bool {
			return d.single || m.links[0].alternative(l)
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
func (d *director) assign(members []*member) (spare []*lane, ok bool) {
	spare = without(d.overlay.lanes, d.retired)
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
		l, err := d.overlay.openLane()
		if err != nil {
			d.log.Warn("cannot open more sockets for frames from nodes: one link carries all packets", "error", err)
			d.single = true
			return nil, false
		}
		m.lane = l
	}
	return spare, true
}

// release sets the link that is to read each lane: the chosen one of its member, none for the lane kept,
// which the fallback reads, and for spare ones. It returns the lanes that change hands, which no device
// reads until hand.
func (d *director) release(members []*member, kept *lane, spare []*lane) (changed []*lane) {
	change := func(l *lane, link *Link) {
		if l.link != link {
			d.failed(d.reader(l).serve(nil))
			l.link = link
			changed = append(changed, l)
		}
	}
	for _, m := range members {
		if m.lane.link == nil {
			d.failed(d.fallback.serve(nil))
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
func (d *director) hand(lanes []*lane) {
	for _, l := range lanes {
		d.failed(d.reader(l).serve(l))
	}
}

// reader returns the device that reads a lane.
func (d *director) reader(l *lane) *Device {
	if l.link == nil {
		return d.fallback
	}
	return l.link.tun
}

func (d *director) failed(err error) {
	if err != nil {
		d.log.Error("cannot read the overlay", "error", err)
	}
}

// direct makes the kernel direct the frames of nodes to the lanes that are live.
func (d *director) direct(members, live []*member, kept *lane) {
	lanesOf := func(members []*member) (lanes []*lane) {
		for _, m := range members {
			lanes = append(lanes, m.lane)
		}
		if len(lanes) == 0 {
			lanes = []*lane{kept}
		}
		return lanes
	}
	d.spread.share(lanesOf(members))
	if !d.spread.move(lanesOf(live)) && !d.undirected {
		return
	}
	err := d.overlay.direct(&d.spread.now)
	d.undirected = err != nil
	if err != nil {
		d.log.Error("cannot direct frames from nodes to links", "error", err)
	}
}

// appoint tells the devices which of them forward what they read, and which lead to the other remote
// gateways.
func (d *director) appoint(members, live []*member, now time.Time) {
	carrier := d.fallback
	if len(live) > 0 {
		carrier = live[0].link.tun
	}
	d.fallback.use(route{carrier: carrier})
	for _, m := range members {
		m.lane.live = slices.Contains(live, m)
		for _, l := range m.links {
			sends := m.lane.live && l == m.link
			if sends {
				l.tun.use(route{carrier: l.tun, others: reachable(members, l)})
			} else {
				l.tun.use(route{carrier: carrier}) // it hands over what its lane still has: a moment
			}
			l.setActive(sends && slices.Contains(d.spread.now[:], m.lane), now)
		}
	}
	if len(live) == 0 {
		d.devices.Store(nil)
		return
	}
	var next devices // not new: nearly always it is what it was
	for bucket, l := range d.spread.now {
		next[bucket] = l.link.tun
	}
	if before := d.devices.Load(); before == nil || *before != next {
		changed := next
		d.devices.Store(&changed)
	}
}

// reachable returns the devices of the remote gateways that can be reached, but that of one link.
func reachable(members []*member, but *Link) (others []*Device) {
	for _, m := range members {
		if m.link != but && m.fit != link.Down {
			others = append(others, m.link.tun)
		}
	}
	return others
}

// retire makes the fallback read what lanes that no member uses still hold, one after the other, and closes
// those that are empty. The lane kept comes first.
func (d *director) retire(lanes []*lane, kept *lane) {
	if len(lanes) > 0 {
		d.failed(d.overlay.stopReceiving(lanes))
		d.retired = append(d.retired, lanes...)
	}
	d.retired = slices.DeleteFunc(d.retired, func(l *lane) bool {
		empty := l.empty()
		if empty {
			if d.fallback.lane.Load() == l {
				d.failed(d.fallback.serve(nil))
			}
			d.failed(d.overlay.closeLane(l))
		}
		return empty
	})
	next := kept
	if next == nil && len(d.retired) > 0 {
		next = d.retired[0]
	}
	d.failed(d.fallback.serve(next))
}

// deviceOf returns the device for a packet from the host to an address outside: that of the remote gateway
// that owns it, else that of the flow. Nil: there is none.
func (d *director) deviceOf(dst netip.Addr, flow uint32) *Device {
	if owner, owned := d.gateway.Owner(dst); owned {
		of, _ := owner.(*Device)
		return of
	}
	if all := d.devices.Load(); all != nil {
		return all[flow%underlay.Buckets]
	}
	return nil
}

// retry makes elect try again to open a lane for each remote gateway.
func (d *director) retry() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.single = false
}

// close ends elections.
func (d *director) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}
