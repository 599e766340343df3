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

// BatchSize is how many packets one Read or Write moves at most: what
// wireguard-go's own sockets move (conn.IdealBatchSize).
const BatchSize = 128

// Device is the tun.Device under one link's WireGuard device. wireguard-go calls
// Read from one goroutine and Write from another; the two share nothing but the
// gateway's table and the packet queue.
type Device struct {
	gateway  *gateway.Gateway
	overlay  *Overlay
	host     *Host
	poller   *underlay.Poller
	events   chan wgtun.Event
	closed   sync.Once
	active   atomic.Bool // this link reads the overlay
	injected packetQueue
	window   underlay.Window // how far Write has come

	// peerKnown says that WireGuard has an address to send to. What comes
	// before that is dropped.
	peerKnown atomic.Bool
	// received says the same: the peer has sent something. It comes before peerKnown where
	// the peer called first.
	received atomic.Bool

	Egress  *gateway.Egress
	read    readState
	Ingress *gateway.Ingress
	write   writeState
}

// readState belongs to Read's goroutine, writeState to Write's.
type (
	readState struct {
		bufs      [][]byte
		sizes     []int
		offset    int
		n         int
		bytes     uint64
		now       time.Time
		peerKnown bool
		full      bool        // the last Read filled all its bufs
		try       func() bool // fill, made once: a closure per call would be garbage
		out       outbox      // answers, and what goes from node to node
	}
	writeState struct {
		out outbox
	}
)

// newDevice returns a device that does not read the overlay yet.
func newDevice(g *gateway.Gateway, o *Overlay, h *Host) (*Device, error) {
	p, err := underlay.NewPoller()
	if err != nil {
		return nil, err
	}
	d := &Device{
		gateway: g, overlay: o, host: h, poller: p,
		events:  make(chan wgtun.Event, 1),
		Egress:  gateway.NewEgress(g),
		Ingress: gateway.NewIngress(g),
	}
	d.read.try = d.fill
	d.read.out = newOutbox(o, &d.Egress.Counters, 2*packet.MaxLen)
	d.write.out = newOutbox(o, &d.Ingress.Counters, 4*packet.MaxLen)
	d.events <- wgtun.EventUp
	return d, nil
}

// activate makes this device the one that reads the overlay, or stops it.
func (d *Device) activate(on bool) error {
	change := d.poller.Remove
	if on {
		change = d.poller.Add
	}
	for _, s := range d.overlay.sockets {
		if err := change(s); err != nil {
			return err
		}
	}
	d.active.Store(on)
	d.poller.Wake()
	return nil
}

// inject queues a copy of an IP packet for the tunnel.
func (d *Device) inject(c *gateway.Counters, b []byte) {
	if !d.injected.put(b) {
		c.CountDropped(gateway.TunnelQueue, 1)
		return
	}
	d.poller.Wake()
}

// Read waits for packets for the tunnel and fills bufs with them.
func (d *Device) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	r := &d.read
	r.bufs, r.sizes, r.offset, r.n = bufs, sizes, offset, 0
	if r.full {
		// Let what the last batch woke do its work first. Read would never park
		// under a flood, and go on until the scheduler stops it, 10 ms and
		// thousands of packets later, each of them in a buffer of 64 KiB.
		runtime.Gosched()
	}
	err := d.poller.Wait(r.try)
	r.full = r.n == len(bufs)
	r.bufs, r.sizes = nil, nil
	if errors.Is(err, net.ErrClosed) {
		err = os.ErrClosed // what wireguard-go takes for a normal end
	}
	return r.n, err
}

// MTU is what wireguard-go pads packets up to: the inner MTU of the whole way.
func (d *Device) MTU() (int, error) { return d.gateway.Table().MTU(), nil }

// mtuChanged makes wireguard-go ask for the MTU again. When it has not come to
// the last change yet, it will find this one.
func (d *Device) mtuChanged() {
	select {
	case d.events <- wgtun.EventMTUUpdate:
	default:
	}
}

// Name is for wireguard-go's own log lines.
func (d *Device) Name() (string, error) { return "strait", nil }

// File is nil: there is no descriptor behind this device.
func (d *Device) File() *os.File { return nil }

// Events tells wireguard-go that the device is up.
func (d *Device) Events() <-chan wgtun.Event { return d.events }

// BatchSize is the most packets of one Read or Write.
func (d *Device) BatchSize() int { return BatchSize }

// Close ends Read. wireguard-go calls it.
func (d *Device) Close() error {
	d.closed.Do(func() {
		d.poller.Close()
		close(d.events)
	})
	return nil
}
