package tun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
	"strait.dev/strait/packet"
	"strait.dev/strait/relay"
	"strait.dev/strait/underlay"
)

// Options configure a Fabric.
type Options struct {
	Underlay underlay.Options // of the WireGuard sockets
	Log      *slog.Logger

	// ObserveRTT is called with each round-trip time of a probe that was sent while its link was up.
	ObserveRTT func(link string, rtt time.Duration)
	// AnnounceMTU is called when the smallest inner MTU that the far ends of the links announce and
	// the paths to them carry changes.
	AnnounceMTU func(mtu int)
	// LinksChanged is called when links have gone up or down. It must not wait.
	LinksChanged func()
	// Dial opens connections to proxied pods and the targets of mappings. Nil: this machine does.
	Dial relay.Dialer
}

// Fabric does all I/O of one gateway: the overlay, the host, the links. Safe for concurrent
// use.
type Fabric struct {
	Gateway *gateway.Gateway
	Overlay *Overlay
	Relay   *relay.Relay // of the host; Refresh gives the host the addresses of its mappings
	Streams *Streams

	options  Options
	clock    *clock
	names    *resolver // of endpoints
	host     *Host
	mux      *underlay.Mux // WireGuard's socket, which all links share
	links    linkList
	director director  // of the packets of nodes
	nodes    nodeState // what nodes are told
	mtus     mtus      // what links teach about the MTU
	prober   prober

	mu     sync.Mutex // held while links change
	ending []*Link    // removed links that still receive; protected by mu

	stop context.CancelFunc
	done sync.WaitGroup
}

// Open starts the host stack and the link probes. SetLinks adds links. The fabric owns o from
// now on, even if Open fails.
func Open(g *gateway.Gateway, o *Overlay, options Options) (*Fabric, error) {
	options.Underlay.DontFragment = true // RFC 8899 section 3: a size that crosses in fragments is none that the path carries
	f := &Fabric{Gateway: g, Overlay: o, options: options, clock: newClock(options.Log), names: newResolver(), mux: underlay.NewMux(options.Underlay)}
	f.director = director{gateway: g, links: &f.links, log: options.Log}
	f.director.routing.Store(new(routing))
	f.nodes = nodeState{gateway: g, overlay: o, links: &f.links}
	f.mtus = mtus{gateway: g, links: &f.links, log: options.Log, announce: options.AnnounceMTU}
	f.prober = prober{links: &f.links, mtu: &f.mtus, clock: f.clock, observe: options.ObserveRTT, changed: make(chan struct{}, 1)}
	f.nodes.update(f.clock.now())
	o.panics.log = options.Log
	var err error
	if f.host, err = newHost(g, o, f.deviceFor, options.Dial); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	f.Relay, f.Streams = f.host.relay, newStreams(f.host, &f.links)
	f.director.fallback, err = newDevice(g, o, f.host, &f.director.routing)
	if err == nil {
		f.director.reader = f.director.fallback
		err = errors.Join(f.director.reader.readOverlay(true), f.Refresh())
	}
	if err != nil {
		f.host.close()
		return nil, errors.Join(err, o.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	f.done.Go(func() { f.watch(ctx) })
	f.done.Go(f.readFallback)
	return f, nil
}

// readFallback reads the overlay while there is no link, so that nodes can still reach the
// gateway itself. Packets for the remote cluster are dropped, because no peer is known.
func (f *Fabric) readFallback() {
	bufs, sizes := [][]byte{make([]byte, packet.MaxLen)}, make([]int, 1)
	for {
		if _, err := f.director.fallback.Read(bufs, sizes, 0); err != nil {
			return // closed
		}
	}
}

// watch probes the links regularly, and acts on a change of their state when it happens.
func (f *Fabric) watch(ctx context.Context) {
	ticks := time.NewTicker(link.Interval)
	defer ticks.Stop()
	for {
		f.decide(f.clock.now())
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			f.mu.Lock()
			ending := slices.Clone(f.ending)
			f.mu.Unlock()
			f.prober.tick(ending, f.nodes.leaving.Load(), f.clock.now())
		case <-f.prober.changed:
		}
	}
}

// decide notes the state of each link and does all that follows from it.
func (f *Fabric) decide(now time.Time) {
	links, moved := f.links.all(), false
	for _, l := range links {
		changed, _ := l.settle(now)
		moved = moved || changed
	}
	if moved && f.options.LinksChanged != nil {
		f.options.LinksChanged()
	}
	f.closeEnded(now)
	f.director.elect(now)
	sendClaims(links, f.Gateway, now)
	f.nodes.update(now)
	f.mtus.update(now)
}

// Refresh updates the addresses and the MTU of the host from the gateway's current table and the mappings of the relay.
func (f *Fabric) Refresh() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.host.setMTU(f.Gateway.Table().MTU())
	f.Overlay.pace(f.Gateway.Table().NodeCount() >= manyNodes)
	for _, l := range f.links.all() {
		l.tun.mtuChanged()
	}
	return f.setAddresses()
}

// setAddresses sets the addresses of the host: those of links, of which some may not have started, of the gateway's table,
// and of mappings. Streams can be opened at those of links. f.mu is held.
func (f *Fabric) setAddresses(starting ...netip.Addr) error {
	for _, l := range slices.Concat(f.links.all(), f.ending) {
		starting = append(starting, l.own)
	}
	return errors.Join(f.host.setAddresses(starting), f.Streams.follow(starting))
}

// SetLinks replaces the links, in order of preference: new links start, changed ones are
// updated, all others end. A link is identified by the keys of both ends and the port; if one of
// them changes, it is a new link, which starts before the old one ends. Its name and endpoints
// may change. On an error the set of links is unchanged, but some may have been updated.
//
// A link that ends while another one leads to the same remote gateway, as after a change of keys, receives for lingering what its
// far end still sends, as long as the other may receive the same.
func (f *Fabric) SetLinks(configs []LinkConfig) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := make(map[linkKey]*Link)
	for _, l := range f.links.all() {
		old[l.key] = l
	}
	next, started, err := f.nextLinks(configs, old)
	if err != nil {
		for _, l := range started {
			l.close()
		}
		return errors.Join(err, f.setAddresses())
	}
	f.links.set(next)
	f.director.elect(f.clock.now())
	f.nodes.update(f.clock.now())
	f.end(old)
	return f.setAddresses()
}

// nextLinks updates the links that stay, removes them from old, and starts the new ones. f.mu
// is held.
func (f *Fabric) nextLinks(configs []LinkConfig, old map[linkKey]*Link) (next, started []*Link, err error) {
	keys, addresses := make([]linkKey, len(configs)), make([]netip.Addr, len(configs))
	for i, c := range configs {
		keys[i] = keyOf(c)
		addresses[i] = linkAddress(keys[i].own)
	}
	if err := f.setAddresses(addresses...); err != nil {
		return nil, nil, err
	}
	for i, c := range configs {
		l, stays := old[keys[i]]
		if stays {
			delete(old, keys[i])
			err = l.update(c)
		} else {
			f.closeEnding(func(l *Link) bool { return l.key == keys[i] })
			if l, err = f.openLink(c); err == nil {
				started = append(started, l)
			}
		}
		if err != nil {
			return nil, started, err
		}
		next = append(next, l)
	}
	return next, started, nil
}

// openLink starts a link.
func (f *Fabric) openLink(c LinkConfig) (*Link, error) {
	d, err := newDevice(f.Gateway, f.Overlay, f.host, &f.director.routing)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", c.Name, err)
	}
	key := keyOf(c)
	l := &Link{
		key: key, own: linkAddress(key.own), far: linkAddress(key.remote), tun: d,
		wg:    wireguard{tun: d, bind: f.mux.Link(key.own, key.remote, &d.window), parent: f.options.Log},
		clock: f.clock, names: f.names, look: make(chan struct{}, 1),
	}
	d.takeDatagram = func(b []byte) bool { return f.prober.take(b, l) }
	if err := l.start(c); err != nil {
		return nil, err
	}
	return l, nil
}

// lingering is how long a link receives after it has been removed: the far end finds it down in that time, if it was not told,
// and a link that the far end had found down because it did not run is up again.
const lingering = 2 * time.Second

// end ends removed links. f.mu is held.
func (f *Fabric) end(removed map[linkKey]*Link) {
	now := f.clock.now()
	for _, l := range removed {
		f.Streams.closeOf(l)
		l.end()
		l.ends = now.Add(lingering)
		f.ending = append(f.ending, l)
		l.sendProbe(l.state.tick(l.received(), f.mtus.own(), true, now), 0)
	}
	f.closeEnding(func(l *Link) bool { return !slices.ContainsFunc(f.links.all(), l.replacedBy) })
}

// closeEnding closes some of the links that are ending, and reports whether there were any. f.mu is held.
func (f *Fabric) closeEnding(which func(*Link) bool) (closed bool) {
	f.ending = slices.DeleteFunc(f.ending, func(l *Link) bool {
		if !which(l) {
			return false
		}
		l.close()
		closed = true
		return true
	})
	return closed
}

// closeEnded closes the links that have received for long enough.
func (f *Fabric) closeEnded(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closeEnding(func(l *Link) bool { return !now.Before(l.ends) }) {
		return
	}
	if err := f.setAddresses(); err != nil {
		f.options.Log.Error("cannot remove the addresses of a link", "error", err)
	}
}

// deviceFor returns the device for a packet from the host: for link addresses that of the link between
// them, for an address that a remote gateway owns that of its link, else that of the flow. Nil: there is none.
func (f *Fabric) deviceFor(src, dst netip.Addr, flow uint32) *Device {
	if dst.IsLinkLocalUnicast() {
		if l := f.links.between(src, dst); l != nil {
			return l.tun
		}
		return nil
	}
	if owner, owned := f.Gateway.Owner(dst); owned {
		of, _ := owner.(*Device)
		return of
	}
	return f.director.routing.Load().device(flow)
}

// Leave makes all further probes and answers tell the far ends and the nodes that this gateway is
// shutting down. Packets are forwarded as before.
func (f *Fabric) Leave() {
	f.nodes.leaving.Store(true)
	f.nodes.update(f.clock.now())
}

// Close stops everything and waits for it.
func (f *Fabric) Close() error {
	f.stop()
	f.Relay.Close() // first, so that links still carry its resets
	f.mu.Lock()
	f.director.close()
	links := f.links.all()
	f.links.set(nil)
	for _, l := range links {
		f.Streams.closeOf(l)
		l.close()
	}
	f.closeEnding(func(*Link) bool { return true })
	err := errors.Join(f.setAddresses(), f.director.fallback.Close())
	f.mu.Unlock()
	f.Streams.close()
	f.done.Wait()
	f.host.close()
	return errors.Join(err, f.Overlay.Close())
}
