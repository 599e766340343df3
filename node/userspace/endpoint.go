//go:build linux

package userspace

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Way is the destination of a device's frames, and their only accepted source.
type Way struct {
	VNI     uint32
	Gateway netip.Addr // address of its UDP socket
}

// Grace is how long frames of a former gateway are accepted, which were in transit.
const Grace = time.Second

// Endpoint serves TAP devices. Safe for concurrent use. The caller must close it.
type Endpoint struct {
	port  uint16 // of this endpoint and of gateways
	grace time.Duration
	table atomic.Pointer[table]
	drops drops

	mu      sync.Mutex // protects what follows
	devices map[string]*device
	sockets [2]*udpSockets // IPv4, IPv6; nil while no device needs it
}

// New returns an endpoint that serves no device and has no socket. Gateways use the same
// UDP port. For the time of grace, frames from a device's former gateway are accepted.
func New(port uint16, grace time.Duration) *Endpoint {
	e := &Endpoint{port: port, grace: grace, devices: map[string]*device{}}
	e.table.Store(&table{})
	return e
}

// Serve connects a persistent device to a gateway. index is the kernel's index of the
// device. A device that is already served keeps its sockets and switches without loss.
// Files and sockets are opened in the network namespace of the calling thread.
func (e *Endpoint) Serve(name string, index int, way Way) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.closeUnused()
	by, err := e.socketsFor(way.Gateway)
	if err != nil {
		return err
	}
	to := newOutlet(way, by, e.port)
	if d := e.devices[name]; d != nil && d.index == index && !d.ended() {
		e.move(d, to)
	} else {
		e.release(name)
		if d, err = openDevice(name, index, to, &e.drops); err != nil {
			e.update()
			return err
		}
		e.devices[name] = d
		e.update()
		go d.carry() // only now, because a reply arrives as soon as it has sent a frame
	}
	return nil
}

// move connects a device to another gateway; frames from the former one are accepted for
// the grace period, and those of the new one before any frame is sent to it.
func (e *Endpoint) move(d *device, to *outlet) {
	d.former[d.way] = time.Now().Add(e.grace)
	time.AfterFunc(e.grace, e.expire)
	d.way = to.way
	e.update()
	d.outlet.Store(to)
}

// Serves returns the gateway of a device; ok is false if it has none or is deleted.
func (e *Endpoint) Serves(name string, index int) (way Way, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.devices[name]
	if d == nil || d.index != index || d.ended() {
		return Way{}, false
	}
	return d.way, true
}

// Release stops serving a device, if it is served. The device stays.
func (e *Endpoint) Release(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.release(name)
	e.update()
	e.closeUnused()
}

// Retain stops serving all other devices. It maps names to indexes.
func (e *Endpoint) Retain(devices map[string]int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, d := range e.devices {
		if devices[name] != d.index {
			e.release(name)
		}
	}
	e.update()
	e.closeUnused()
}

// Close stops serving. The devices stay.
func (e *Endpoint) Close() { e.Retain(nil) }

// Dropped counts dropped frames by reason, without reasons that have none.
func (e *Endpoint) Dropped() map[string]uint64 {
	counts := map[string]uint64{}
	for why := range e.drops {
		if n := e.drops[why].Load(); n > 0 {
			counts[Reason(why).String()] = n
		}
	}
	return counts
}

// Failing returns the gateways to which sending has failed for some time.
func (e *Endpoint) Failing(now time.Time) (ways []Way) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.devices {
		if d.failures.persists(now) {
			ways = append(ways, d.way)
		}
	}
	return ways
}

// socketsFor returns the sockets for a gateway's address family and opens them if necessary.
func (e *Endpoint) socketsFor(gateway netip.Addr) (*udpSockets, error) {
	family, local := 0, netip.IPv4Unspecified()
	if gateway.Is6() {
		family, local = 1, netip.IPv6Unspecified()
	}
	if e.sockets[family] == nil {
		w, err := openSockets(local, e.port, &e.table, &e.drops)
		if err != nil {
			return nil, err
		}
		e.sockets[family] = w
	}
	return e.sockets[family], nil
}

// closeUnused closes the sockets that no device needs, which frees their port.
func (e *Endpoint) closeUnused() {
	used := map[*udpSockets]bool{}
	for _, d := range e.devices {
		used[d.outlet.Load().sockets] = true
	}
	for family, w := range e.sockets {
		if w != nil && !used[w] {
			w.close()
			e.sockets[family] = nil
		}
	}
}

func (e *Endpoint) release(name string) {
	if d := e.devices[name]; d != nil {
		d.close()
		delete(e.devices, name)
	}
}

// expire is called when the grace period of a former gateway may be over.
func (e *Endpoint) expire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.update()
}

// update rebuilds the table from the devices. Present gateways take precedence.
func (e *Endpoint) update() {
	t, now := table{}, time.Now()
	for _, d := range e.devices {
		maps.DeleteFunc(d.former, func(_ Way, until time.Time) bool { return !now.Before(until) })
		for way := range d.former {
			t.add(way, d)
		}
	}
	for _, d := range e.devices {
		t.add(d.way, d)
	}
	e.table.Store(&t)
}
