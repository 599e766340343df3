package tun

import (
	"errors"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	wgtun "golang.zx2c4.com/wireguard/tun"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// BatchSize is the maximum number of packets per Read or Write, the same as that of
// wireguard-go's own sockets (conn.IdealBatchSize).
const BatchSize = 128

// Device is the tun.Device under one link's WireGuard device. wireguard-go calls Read from one
// goroutine and Write from another; the two share only the gateway's table and the packet
// queue.
type Device struct {
	gateway  *gateway.Gateway
	overlay  *Overlay
	host     *Host
	poller   *underlay.Poller
	events   chan wgtun.Event
	closed   sync.Once
	reads    atomic.Bool              // whether this device reads the overlay
	routing  *atomic.Pointer[routing] // of the gateway
	injected packetQueue
	window   underlay.Window // progress of Write

	// peerKnown reports that WireGuard has an address for the peer. Packets before that are
	// dropped.
	peerKnown atomic.Bool
	// received is when Write was last called, as time since began; 0 = never. All packets that
	// WireGuard passes to Write are authenticated. A peer that has sent something is known: this is set
	// before peerKnown if the peer initiated.
	received atomic.Int64

	// takeDatagram takes a packet for the host that is a probe or a claim of this link. Nil: there are none. It does not keep b.
	takeDatagram func(b []byte) bool

	Egress  *gateway.Egress
	read    reader
	Ingress *gateway.Ingress
	write   writer
}

// began is the origin of Device.received.
var began = time.Now()

// newDevice returns a device that does not read the overlay.
func newDevice(g *gateway.Gateway, o *Overlay, h *Host, routes *atomic.Pointer[routing]) (*Device, error) {
	p, err := underlay.NewPoller()
	if err != nil {
		return nil, err
	}
	d := &Device{
		gateway: g, overlay: o, host: h, poller: p, routing: routes,
		events:  make(chan wgtun.Event, 1),
		Egress:  gateway.NewEgress(g),
		Ingress: gateway.NewIngress(g),
	}
	d.read = reader{device: d, egress: d.Egress, out: newOutbox(o, &d.Egress.Counters, 2*packet.MaxLen)}
	d.read.try = d.read.fill
	d.read.look = time.AfterFunc(unsentLook, p.Wake)
	d.write = writer{device: d, out: newOutbox(o, &d.Ingress.Counters, 4*packet.MaxLen), toHost: inbox{host: h}}
	return d, nil
}

// readOverlay makes this device read the overlay, or no longer. It may still be reading a batch.
func (d *Device) readOverlay(on bool) error {
	d.reads.Store(on)
	watch := d.poller.Remove
	if on {
		watch = d.poller.Add
	}
	var err error
	for _, s := range d.overlay.incoming.sources {
		err = errors.Join(err, watch(s.socket))
	}
	d.poller.Wake()
	return err
}

// knowsPeer reports whether packets can be sent to the peer.
func (d *Device) knowsPeer() bool { return d.peerKnown.Load() || d.received.Load() != 0 }

// inject queues a copy of an IP packet for the tunnel. It reports false, and counts a drop in c,
// if the queue of its kind is full.
func (d *Device) inject(c *gateway.Counters, b []byte, kind packetKind) bool {
	if !d.injected.put(b, kind) {
		c.CountDropped(gateway.TunnelQueue, 1)
		return false
	}
	d.poller.Wake()
	return true
}

// Read waits for packets for the tunnel and fills bufs with them.
func (d *Device) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	r := &d.read
	r.bufs, r.sizes, r.offset, r.n = bufs, sizes, offset, 0
	if r.full {
		// Let the goroutines that the last batch woke run first. In a flood, Read would never
		// park, and run until the scheduler preempts it, 10 ms and thousands of packets later,
		// each of them in a buffer of 64 KiB.
		runtime.Gosched()
	}
	err := d.poller.Wait(r.try)
	r.full = r.n == len(bufs)
	r.bufs, r.sizes = nil, nil
	if errors.Is(err, net.ErrClosed) {
		err = os.ErrClosed // wireguard-go treats this as a normal end
	}
	return r.n, err
}

// MTU returns the size up to which wireguard-go pads packets: the inner MTU of the whole path.
func (d *Device) MTU() (int, error) { return d.gateway.Table().MTU(), nil }

// mtuChanged makes wireguard-go read the MTU again. An event that is still pending covers this
// change too.
func (d *Device) mtuChanged() {
	select {
	case d.events <- wgtun.EventMTUUpdate:
	default:
	}
}

// Name returns a name for wireguard-go's own log lines.
func (d *Device) Name() (string, error) { return "strait", nil }

// File returns nil: there is no descriptor behind this device.
func (d *Device) File() *os.File { return nil }

// Events returns the channel of changes of the MTU. That the device is up is no event: wireguard-go would open the
// port a second time, after Link.start, and close that of the first.
func (d *Device) Events() <-chan wgtun.Event { return d.events }

// BatchSize returns the maximum number of packets per Read or Write.
func (d *Device) BatchSize() int { return BatchSize }

// Close ends Read. wireguard-go calls it.
func (d *Device) Close() error {
	d.closed.Do(func() {
		d.poller.Close()
		close(d.events)
	})
	return nil
}
