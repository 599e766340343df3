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
)

// member is a remote gateway: its links are alternatives.
type member struct {
	links  []*Link
	link   *Link // the one in use
	weight int   // of link, see LinkConfig
	fit    link.Fitness
	steady time.Duration // how long link had been up when both directions last worked
	live   bool          // it carries packets
}

// director decides which links carry packets from nodes, and which device reads the overlay. Safe for concurrent use; the
// methods that elect calls hold mu.
type director struct {
	gateway  *gateway.Gateway
	links    *linkList
	fallback *Device // reads the overlay while there is no link
	log      *slog.Logger
	routing  atomic.Pointer[routing] // never nil

	mu      sync.Mutex // protects the fields below
	closed  bool
	members []*member // in the order of their first links
	spread  spread
	reader  *Device              // reads the overlay
	owners  map[netip.Addr]owner // of addresses of the remote cluster
}

// elect directs the packets of nodes to all remote gateways whose link is up, or else to those that are
// ending, or else to one. The link that carries the most flows reads the overlay, and hands over the packets of other links.
// When it returns, no removed link reads the overlay.
//
// elect is to be called whenever links or their fitness change, and from time to time. It is idempotent
// and cheap while nothing changes.
func (d *director) elect(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return
	}
	d.group(d.links.all())
	for _, m := range d.members {
		m.link = choose(m.links, m.link, now)
		p, _ := m.link.state.copies()
		m.fit, m.steady, m.weight = p.Fit(now), p.Steady(), m.link.wg.settings.Load().Weight
	}
	live := carriers(d.members)
	if len(live) == 0 {
		d.spread = spread{}
	} else {
		d.spread.share(d.members)
		d.spread.move(live)
	}
	for _, m := range d.members {
		m.live = slices.Contains(live, m)
		for _, l := range m.links {
			l.setActive(l == m.link && slices.Contains(d.spread.now[:], m), now)
		}
	}
	d.route()
	d.read(d.mostUsed())
	d.pin(d.members)
}

// group makes members of links: those that lead to the same remote gateway are one, and stay the same member.
func (d *director) group(links []*Link) {
	var all []*member
	for _, l := range links {
		i := slices.IndexFunc(all, func(m *member) bool { return m.links[0].alternative(l) })
		if i >= 0 {
			all[i].links = append(all[i].links, l)
			continue
		}
		m := new(member)
		if i := slices.IndexFunc(d.members, func(m *member) bool { return m.link.alternative(l) }); i >= 0 {
			m = d.members[i]
		}
		m.links = []*Link{l}
		all = append(all, m)
	}
	d.members = all
}

// route tells the devices which links send the packets for the remote cluster.
func (d *director) route() {
	var next routing
	for bucket, m := range d.spread.now {
		if m != nil {
			next.flows[bucket] = m.link.tun
		}
	}
	for _, m := range d.members {
		if m.fit != link.Down {
			next.reachable = append(next.reachable, m.link.tun)
		}
	}
	if now := d.routing.Load(); now.flows != next.flows || !slices.Equal(now.reachable, next.reachable) {
		d.routing.Store(&next)
	}
}

// mostUsed returns the device that sends the most flows: that which reads the overlay now, if no other sends more; the fallback
// without links.
func (d *director) mostUsed() *Device {
	routing := d.routing.Load()
	best := d.fallback
	most := 0.0
	for _, m := range d.members {
		if share := routing.share(m.link.tun); share > most || share == most && m.link.tun == d.reader {
			best, most = m.link.tun, share
		}
	}
	return best
}

// read makes a device read the overlay, and no other.
func (d *director) read(to *Device) {
	if to == d.reader {
		return
	}
	if err := d.reader.readOverlay(false); err != nil {
		d.log.Error("cannot stop reading the overlay", "error", err)
	}
	if err := to.readOverlay(true); err != nil {
		d.log.Error("cannot read the overlay", "error", err)
	}
	d.reader = to
}

// close ends elections.
func (d *director) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}
