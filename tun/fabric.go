package tun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/gateway"
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

	options       Options
	clock         *clock
	names         *resolver // of endpoints
	host          *Host
	mux           *underlay.Mux                // WireGuard's socket, which all links share
	links         atomic.Pointer[[]*Link]      // never nil; replaced, not changed
	leaving       atomic.Bool                  // this gateway is shutting down
	director      director                     // of the packets of nodes; protected by mu
	mu            sync.Mutex                   // held while links change
	ending        []*Link                      // removed links that still receive; protected by mu
	closed        bool                         // protected by mu
	linkListeners map[netip.Addr]*linkListener // by own link address; protected by mu
	listeners     map[*listener]bool           // open listeners; protected by mu
	mtu           int                          // last announced, 0 = none
	pathLimit     atomic.Int64                 // largest packet that the paths of the links carry; 0 = as the interfaces
	stating       sync.Mutex                   // held while the state that nodes are told is determined
	changed       chan struct{}                // of capacity 1: the state of a link has changed

	stop context.CancelFunc
	done sync.WaitGroup
}

// Open starts the host stack and the link probes. SetLinks adds links. The fabric owns o from
// now on, even if Open fails.
func Open(g *gateway.Gateway, o *Overlay, options Options) (*Fabric, error) {
	options.Underlay.DontFragment = true // RFC 8899 section 3: a size that crosses in fragments is none that the path carries
	f := &Fabric{
		Gateway: g, Overlay: o, options: options, clock: newClock(options.Log), names: newResolver(), mux: underlay.NewMux(options.Underlay),
		director:      director{gateway: g, overlay: o, log: options.Log},
		linkListeners: make(map[netip.Addr]*linkListener), listeners: make(map[*listener]bool), changed: make(chan struct{}, 1),
	}
	f.links.Store(new([]*Link))
	f.updateState(f.clock.now())
	o.panics.log = options.Log
	var err error
	if f.host, err = newHost(g, o, f.deviceFor, options.Dial); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	f.director.fallback, err = newDevice(g, o, f.host)
	if err == nil {
		err = errors.Join(f.director.fallback.serve(o.lanes[0]), f.Refresh())
	}
	if err != nil {
		f.host.close()
		return nil, errors.Join(err, o.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	f.done.Go(func() { f.probe(ctx) })
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

// Refresh updates the addresses and the MTU of the host from the gateway's current table.
func (f *Fabric) Refresh() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.host.setMTU(f.Gateway.Table().MTU())
	f.Overlay.pace(f.Gateway.Table().ManyNodes())
	for _, l := range *f.links.Load() {
		l.tun.mtuChanged()
	}
	return f.own(slices.Collect(maps.Keys(f.linkListeners)))
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
	for _, l := range *f.links.Load() {
		old[l.key] = l
	}
	next, started, err := f.nextLinks(configs, old)
	if err != nil {
		for _, l := range started {
			l.close()
		}
		return errors.Join(err, f.closeLinkListeners())
	}
	f.links.Store(&next)
	f.director.single = false
	f.elect(f.clock.now())
	f.updateState(f.clock.now())
	f.end(old)
	return f.closeLinkListeners()
}

// elect decides which links carry packets, and tells the far ends which addresses are this gateway's. f.mu is
// held.
func (f *Fabric) elect(now time.Time) {
	if f.closed {
		return
	}
	f.director.elect(*f.links.Load(), now)
	f.claim(now)
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
	return f.director.deviceOf(dst, flow)
}

// lingering is how long a link receives after it has been removed: the far end finds it down in that time, if it was not told,
// and a link that the far end had found down because it did not run is up again.
const lingering = 2 * time.Second

// end ends removed links. f.mu is held.
func (f *Fabric) end(removed map[linkKey]*Link) {
	now := f.clock.now()
	for _, l := range removed {
		l.end()
		l.ends = now.Add(lingering)
		f.ending = append(f.ending, l)
		f.sendProbe(l.tick(f.ownMTU(), true, now), l, 0)
	}
	f.closeEnding(func(l *Link) bool { return !slices.ContainsFunc(*f.links.Load(), l.replacedBy) })
}

// closeEnding closes some of the links that are ending. f.mu is held.
func (f *Fabric) closeEnding(which func(*Link) bool) {
	f.ending = slices.DeleteFunc(f.ending, func(l *Link) bool {
		if which(l) {
			l.close()
			return true
		}
		return false
	})
}

// closeEnded closes the links that have received for long enough. f.mu is held.
func (f *Fabric) closeEnded(now time.Time) {
	before := len(f.ending)
	f.closeEnding(func(l *Link) bool { return !now.Before(l.ends) })
	if len(f.ending) == before {
		return
	}
	if err := f.closeLinkListeners(); err != nil {
		f.options.Log.Error("cannot remove the addresses of a link", "error", err)
	}
}

// nextLinks updates the links that stay, removes them from old, and starts the new ones. f.mu
// is held.
func (f *Fabric) nextLinks(configs []LinkConfig, old map[linkKey]*Link) (next, started []*Link, err error) {
	keys := make([]linkKey, len(configs))
	for i, c := range configs {
		keys[i] = keyOf(c)
	}
	if err := f.openLinkListeners(keys); err != nil {
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

type linkKey struct {
	own, remote device.NoisePublicKey
	port        uint16
}

func keyOf(c LinkConfig) linkKey {
	return linkKey{publicKey(c.PrivateKey), c.PublicKey, c.ListenPort}
}

// openLink starts a link.
func (f *Fabric) openLink(c LinkConfig) (*Link, error) {
	d, err := newDevice(f.Gateway, f.Overlay, f.host)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", c.Name, err)
	}
	key := keyOf(c)
	listener := f.linkListeners[linkAddress(key.own)]
	l := &Link{
		key: key, own: listener.address, far: linkAddress(key.remote), listener: listener, tun: d,
		bind: f.mux.Link(key.own, key.remote, &d.window),
		log:  f.options.Log, clock: f.clock, names: f.names, streams: make(map[*stream]bool), look: make(chan struct{}, 1),
	}
	d.takeProbe = func(b []byte) bool { return f.takeProbe(b, l) }
	if err := l.start(c); err != nil {
		return nil, err
	}
	return l, nil
}

// Overflows returns the number of datagrams that the kernel dropped because they were not read
// fast enough: frames from nodes, and WireGuard datagrams.
func (f *Fabric) Overflows() (overlay, wireguard uint64) {
	return f.Overlay.Overflows(), f.mux.Overflows()
}

// ReceiveFailures returns the number of system calls that failed to receive: frames from nodes,
// and WireGuard datagrams.
func (f *Fabric) ReceiveFailures() (overlay, wireguard uint64) {
	return f.Overlay.ReceiveFailures(), f.mux.Counters().ReceiveFailures
}

// Datagrams returns the losses between the network and WireGuard.
func (f *Fabric) Datagrams() underlay.Counters { return f.mux.Counters() }

// Fallback returns the counters of packets that nodes send while there is no link.
func (f *Fabric) Fallback() *gateway.Counters { return &f.director.fallback.Egress.Counters }

// Origin returns the counters of packets that the host itself sends.
func (f *Fabric) Origin() *gateway.Counters { return &f.host.origin.Counters }

// Close stops everything and waits for it.
func (f *Fabric) Close() error {
	f.stop()
	f.host.relay.Close() // first, so that links still carry its resets
	f.mu.Lock()
	f.closeEnding(func(*Link) bool { return true })
	for _, l := range *f.links.Load() {
		l.close()
	}
	f.links.Store(new([]*Link))
	f.closed = true
	for s := range f.listeners {
		s.close()
	}
	err := errors.Join(f.closeLinkListeners(), f.director.fallback.Close())
	f.mu.Unlock()
	f.done.Wait()
	f.host.close()
	return errors.Join(err, f.Overlay.Close())
}
