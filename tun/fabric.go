package tun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/device"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"strait.dev/strait/gateway"
	"strait.dev/strait/underlay"
)

// Options of a Fabric.
type Options struct {
	PrivateKey device.NoisePrivateKey
	Underlay   underlay.Options // of the WireGuard sockets
	Log        *slog.Logger

	// ObserveRTT is called with every round trip of a link probe.
	ObserveRTT func(link string, rtt time.Duration)
	// AnnounceMTU is called when the smallest inner MTU that the far ends of the
	// links announce changes.
	AnnounceMTU func(mtu int)
}

// Fabric is everything of one gateway that does I/O: the overlay, the host, the
// links. Safe for concurrent use.
type Fabric struct {
	Gateway *gateway.Gateway
	Overlay *Overlay

	options Options
	host    *Host
	mux     *underlay.Mux
	probes  *gonet.UDPConn
	links   atomic.Pointer[[]*Link] // never nil; replaced, not changed
	active  atomic.Pointer[Link]    // reads the overlay; nil without links
	mu      sync.Mutex              // held while links change
	mtu     int                     // last announced, 0 = none

	stop context.CancelFunc
	done sync.WaitGroup
}

// Open starts the host stack and the probing. Links come with SetLinks. The
// fabric owns o from now on, also when it fails.
func Open(g *gateway.Gateway, o *Overlay, options Options) (*Fabric, error) {
	f := &Fabric{Gateway: g, Overlay: o, options: options, mux: underlay.NewMux(options.Underlay)}
	f.links.Store(new([]*Link))
	var err error
	if f.host, err = newHost(g, o, f.deviceFor); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	if err := f.openHost(); err != nil {
		f.host.close()
		return nil, errors.Join(err, o.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	f.done.Go(func() { f.probe(ctx) })
	f.done.Go(f.receiveProbes)
	return f, nil
}

// openHost gives the host its addresses and opens its socket for link probes.
func (f *Fabric) openHost() error {
	if err := f.Refresh(); err != nil {
		return err
	}
	own := netip.AddrPortFrom(linkAddress(publicKey(f.options.PrivateKey)), probePort)
	var err error
	if f.probes, err = f.host.listenUDP(own); err != nil {
		return fmt.Errorf("listen for link probes on %v: %w", own, err)
	}
	return nil
}

// Refresh makes the host follow the gateway's current table: its addresses and MTU.
func (f *Fabric) Refresh() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.Gateway.Table()
	f.host.setMTU(t.MTU())
	for _, l := range *f.links.Load() {
		l.tun.mtuChanged()
	}
	own := linkAddress(publicKey(f.options.PrivateKey))
	return f.host.setAddresses(append([]netip.Addr{own}, t.Addresses()...))
}

// SetLinks makes these the links: new ones start, changed ones are updated,
// others end. A link is known by its name, public key, endpoint and port.
func (f *Fabric) SetLinks(configs []LinkConfig) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := make(map[linkKey]*Link)
	for _, l := range *f.links.Load() {
		old[keyOf(l.config)] = l
	}
	var next, started []*Link
	for _, c := range configs {
		if l, ok := old[keyOf(c)]; ok {
			delete(old, keyOf(c))
			if err := l.update(c); err != nil {
				return err
			}
			next = append(next, l)
			continue
		}
		l, err := f.openLink(c)
		if err != nil {
			for _, s := range started {
				s.close()
			}
			return err
		}
		next, started = append(next, l), append(started, l)
	}
	f.links.Store(&next)
	f.elect(time.Now())
	for _, l := range old {
		l.close()
	}
	return nil
}

type linkKey struct {
	name     string
	public   device.NoisePublicKey
	endpoint string
	port     uint16
}

func keyOf(c LinkConfig) linkKey { return linkKey{c.Name, c.PublicKey, c.Endpoint, c.ListenPort} }

func (f *Fabric) openLink(c LinkConfig) (*Link, error) {
	d, err := newDevice(f.Gateway, f.Overlay, f.host)
	if err != nil {
		return nil, fmt.Errorf("link %s: %w", c.Name, err)
	}
	return newLink(c, d, f.mux.Link(), f.options.Log, func(l *Link) { f.ask(l, time.Now()) })
}

// elect makes one link the active one: the present one while it is up or nobody
// else is, else the first that is up, else the first. f.mu is held.
func (f *Fabric) elect(now time.Time) {
	present, links := f.active.Load(), *f.links.Load()
	var next *Link
	if len(links) > 0 {
		next = links[0]
	}
	if slices.Contains(links, present) {
		next = present
	}
	if next != nil && !next.isUp(now) {
		if i := slices.IndexFunc(links, func(l *Link) bool { return l.isUp(now) }); i >= 0 {
			next = links[i]
		}
	}
	if next == present {
		return
	}
	if present != nil {
		if err := present.tun.activate(false); err != nil {
			present.log.Warn("cannot stop reading the overlay", "error", err)
		}
	}
	f.active.Store(next)
	if next != nil {
		if err := next.tun.activate(true); err != nil {
			next.log.Error("cannot read the overlay", "error", err)
			return
		}
		next.log.Info("link is active")
	}
}

// deviceFor names the link into whose tunnel a packet of the host goes: that of
// the far end for link addresses, else the active one.
func (f *Fabric) deviceFor(dst netip.Addr) *Device {
	l := f.active.Load()
	if dst.IsLinkLocalUnicast() {
		l = f.linkOf(dst)
	}
	if l == nil {
		return nil
	}
	return l.tun
}

// Overflows counts datagrams that the kernel dropped because they were not read
// fast enough: frames from nodes, and WireGuard's.
func (f *Fabric) Overflows() (overlay, wireguard uint64) {
	return f.Overlay.Overflows(), f.mux.Overflows()
}

// Datagrams counts what was lost between the network and WireGuard.
func (f *Fabric) Datagrams() underlay.Counters { return f.mux.Counters() }

// Origin are the counters of what the host itself sends.
func (f *Fabric) Origin() *gateway.Counters { return &f.host.origin.Counters }

// Close ends everything and waits for it.
func (f *Fabric) Close() error {
	f.stop()
	f.probes.Close()
	f.done.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range *f.links.Load() {
		l.close()
	}
	f.links.Store(new([]*Link))
	f.host.close()
	return f.Overlay.Close()
}
