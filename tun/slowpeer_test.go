package tun

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	wgtun "golang.zx2c4.com/wireguard/tun"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/link"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/alone"
)

// slowEnd is one end of a link whose datagrams take long to arrive: the real loop that initiates
// handshakes, the real prober, and WireGuard, without sockets. It is its own TUN and bind.
type slowEnd struct {
	link       *Link
	other      atomic.Pointer[slowEnd]
	delay      atomic.Int64 // of what it sends, a time.Duration
	out        chan []byte  // packets for the tunnel
	in         chan datagram
	events     chan wgtun.Event
	done       chan struct{}
	mu         sync.Mutex
	closed     chan struct{} // of the bind
	changed    chan struct{}
	cut        atomic.Bool  // datagrams that it sends are lost
	handshakes atomic.Int64 // initiations sent
	downs      atomic.Int64 // times that the link was found down after it had been up

	crossing link.Crossing

	// A load balancer is between the ends that has forgotten the flow of this one: its datagrams
	// arrive from an address that leads nowhere, until one has arrived and the other end sends to
	// the load balancer.
	flow atomic.Int32
}

// Values of slowEnd.flow.
const (
	known int32 = iota
	forgotten
	untranslated // a datagram has arrived
)

type datagram struct {
	bytes  []byte
	from   slowEndpoint
	waited bool // for the answer to an initiation that it crossed
}

func newSlowEnd(own, remote device.NoisePrivateKey, delay time.Duration) *slowEnd {
	c := LinkConfig{Name: "slow", PrivateKey: own, PublicKey: publicKey(remote), Endpoints: []string{"192.0.2.1:51840"}, Keepalive: 25 * time.Second}
	e := &slowEnd{
		out: make(chan []byte, 64), in: make(chan datagram, 64),
		events: make(chan wgtun.Event, 1), done: make(chan struct{}), changed: make(chan struct{}, 1),
	}
	e.delay.Store(int64(delay))
	e.events <- wgtun.EventUp
	e.link = &Link{
		key: keyOf(c), tun: &Device{Egress: gateway.NewEgress(gateway.New(new(gateway.Table), rand.NewPCG(1, 2)))}, own: linkAddress(publicKey(own)), far: linkAddress(c.PublicKey), clock: newClock(slog.New(slog.DiscardHandler)),
		look: make(chan struct{}, 1),
	}
	e.link.wg.bind, e.link.wg.tun, e.link.wg.parent = e, e.link.tun, slog.New(slog.DiscardHandler)
	e.link.wg.keep(c)
	e.crossing.Prevails = bytes.Compare(e.link.key.own[:], e.link.key.remote[:]) < 0
	return e
}

// silence takes the endpoints away: the end waits for the other one.
func (e *slowEnd) silence() {
	c := e.link.wg.settings.Load().LinkConfig
	c.Endpoints = nil
	e.link.wg.keep(c)
}

// start runs the end until ctx ends.
//
//strait:virtualtime
func (e *slowEnd) start(ctx context.Context, t *testing.T, running *sync.WaitGroup) {
	wg := &e.link.wg
	wg.device = device.NewDevice(e, e, wg.messages(e.link.lookAgain))
	if err := wg.device.IpcSet(deviceSettings(wg.settings.Load().LinkConfig)); err != nil {
		t.Fatal(err)
	}
	if err := wg.device.Up(); err != nil {
		t.Fatal(err)
	}
	running.Go(func() { e.link.call(ctx) })
	running.Go(func() {
		for ticks := time.NewTicker(link.Interval); ctx.Err() == nil; {
			e.decide(t)
			select {
			case <-ctx.Done():
			case <-e.changed:
			case <-ticks.C:
				if e.link.contactable() {
					e.send(e.link.state.tick(e.link.received(), 1420, false, e.link.clock.now()))
				}
			}
		}
		close(e.done) // ends Read
		close(e.events)
		wg.device.Close()
	})
}

// decide is Fabric.decide for the only link.
func (e *slowEnd) decide(t *testing.T) {
	if changed, up := e.link.settle(e.link.clock.now()); changed && !up {
		e.downs.Add(1)
		e.logDown(t)
	}
}

// logDown logs why the end takes the link for down.
//
//strait:virtualtime
func (e *slowEnd) logDown(t *testing.T) {
	handshake := e.link.wg.session().handshake
	e.link.state.mu.Lock()
	defer e.link.state.mu.Unlock()
	now := e.link.clock.now()
	t.Logf("down %v after the last news, %v after the last packet, %v after the last handshake", now.Sub(e.link.state.prober.News), now.Sub(e.link.state.received), time.Since(handshake))
}

func (e *slowEnd) up() bool { return e.link.state.fit(e.link.clock.now()) == link.Up }

// send queues a probe for the tunnel, in an IPv6 packet without a UDP header.
func (e *slowEnd) send(p link.Probe) {
	payload := p.Append(nil)
	b := make([]byte, packet.IPv6HeaderLen, packet.IPv6HeaderLen+link.ProbeLen)
	b[0] = 6 << 4
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	copy(b[8:], e.link.own.AsSlice())
	copy(b[24:], e.link.far.AsSlice())
	select {
	case e.out <- append(b, payload...):
	default:
	}
}

// Write implements tun.Device: it receives probes.
//
//strait:virtualtime
func (e *slowEnd) Write(bufs [][]byte, offset int) (int, error) {
	e.link.tun.received.Store(int64(time.Since(began)))
	for _, b := range bufs {
		p, ok := link.ParseProbe(b[offset+packet.IPv6HeaderLen:])
		if !ok {
			continue
		}
		if e.link.state.took(p, e.link.clock.now()).changed {
			select {
			case e.changed <- struct{}{}:
			default:
			}
		}
	}
	return len(bufs), nil
}

func (e *slowEnd) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	select {
	case b := <-e.out:
		sizes[0] = copy(bufs[0][offset:], b)
		return 1, nil
	case <-e.done:
		return 0, os.ErrClosed
	}
}

func (e *slowEnd) File() *os.File             { return nil }
func (e *slowEnd) MTU() (int, error)          { return 1420, nil }
func (e *slowEnd) Name() (string, error)      { return "slow", nil }
func (e *slowEnd) Events() <-chan wgtun.Event { return e.events }

// BatchSize is that of the TUN and the bind.
func (e *slowEnd) BatchSize() int { return 1 }

// Open implements conn.Bind.
func (e *slowEnd) Open(uint16) ([]conn.ReceiveFunc, uint16, error) {
	closed := make(chan struct{})
	e.mu.Lock()
	e.closed = closed
	e.mu.Unlock()
	return []conn.ReceiveFunc{func(packets [][]byte, sizes []int, from []conn.Endpoint) (int, error) {
		for {
			select {
			case d := <-e.in:
				if e.waits(d) {
					continue
				}
				sizes[0], from[0] = copy(packets[0], d.bytes), d.from
				return 1, nil
			case <-closed:
				return 0, net.ErrClosed
			}
		}
	}}, 51840, nil
}

// waits reports whether a datagram is to wait, as the bind of package underlay makes it.
//
//strait:virtualtime
func (e *slowEnd) waits(d datagram) bool {
	now := time.Now()
	switch d.bytes[0] {
	case device.MessageResponseType:
		e.crossing.Answered(now)
	case device.MessageInitiationType:
		wait := e.crossing.Wait(now)
		if wait == 0 || d.waited {
			return false
		}
		d.waited = true
		time.AfterFunc(wait, func() {
			if !e.crossing.Obsolete(now) {
				select {
				case e.in <- d:
				default:
				}
			}
		})
		return true
	}
	return false
}

// Close closes the bind. WireGuard also calls it for the TUN, whose Read ends with done.
func (e *slowEnd) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed != nil {
		close(e.closed)
		e.closed = nil
	}
	return nil
}

// Send implements conn.Bind.
//
//strait:virtualtime
func (e *slowEnd) Send(bufs [][]byte, to conn.Endpoint) error {
	for _, b := range bufs {
		if b[0] == device.MessageInitiationType {
			e.handshakes.Add(1)
			e.crossing.Sent(time.Now())
		}
		if e.cut.Load() {
			continue
		}
		sent := datagram{bytes: append([]byte(nil), b...), from: slowEndpoint{nowhere: e.flow.Load() != known}}
		time.AfterFunc(time.Duration(e.delay.Load()), func() {
			other := e.other.Load()
			if other == nil || to.(slowEndpoint).nowhere {
				return // it does not run yet, or the address leads nowhere
			}
			e.flow.CompareAndSwap(forgotten, untranslated)
			other.flow.CompareAndSwap(untranslated, known)
			select {
			case other.in <- sent:
			default:
			}
		})
	}
	return nil
}

func (e *slowEnd) SetMark(uint32) error                        { return nil }
func (e *slowEnd) UseOwnPort(bool)                             {}
func (e *slowEnd) ParseEndpoint(string) (conn.Endpoint, error) { return slowEndpoint{}, nil }

// slowEndpoint is one of two addresses: 192.0.2.1, which leads to the other end, and
// 198.51.100.1, which leads nowhere.
type slowEndpoint struct{ nowhere bool }

func (slowEndpoint) ClearSrc()             {}
func (slowEndpoint) SrcToString() string   { return "" }
func (s slowEndpoint) DstToString() string { return s.DstIP().String() + ":51840" }
func (s slowEndpoint) DstToBytes() []byte  { return s.DstIP().AsSlice() }
func (s slowEndpoint) DstIP() netip.Addr {
	if s.nowhere {
		return netip.MustParseAddr("198.51.100.1")
	}
	return netip.MustParseAddr("192.0.2.1")
}
func (slowEndpoint) SrcIP() netip.Addr { return netip.Addr{} }

// phases returns the times from 0 until end, step apart. Under the race detector, which takes ten times
// as long, they are the first two: all run the same code.
func phases(end, step time.Duration) iter.Seq[time.Duration] {
	if raceflag.Enabled {
		end = min(end, 2*step)
	}
	return func(yield func(time.Duration) bool) {
		for at := time.Duration(0); at < end && yield(at); at += step {
		}
	}
}

// inVirtualTime runs a test in a process of its own, without garbage collection, because WireGuard's finalizers use
// channels, which must not be used outside of the bubble. It reports whether this is that process.
func inVirtualTime(t *testing.T) bool {
	t.Helper()
	return alone.Process(t, "GOGC=off")
}

// Two ends whose datagrams take up to a second each way find a session, whenever the
// second one starts, and keep it: probes that are late are no reason for a handshake.
func TestF19_SlowHandshakesAndProbesConverge(t *testing.T) {
	if !inVirtualTime(t) {
		return
	}
	const steady = 4 * time.Minute
	for delay, soon := range map[time.Duration]time.Duration{
		5 * time.Millisecond: 20 * time.Second, 500 * time.Millisecond: 30 * time.Second, time.Second: time.Minute,
	} {
		for phase := range phases(2*time.Second, 290*time.Millisecond) {
			t.Run(fmt.Sprintf("%v/%v", delay, phase), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					one, two := newKey(), newKey()
					a, b := newSlowEnd(one, two, delay), newSlowEnd(two, one, delay)
					a.other.Store(b)
					b.other.Store(a)
					ctx, cancel := context.WithCancel(t.Context())
					var running sync.WaitGroup
					began := time.Now()
					a.start(ctx, t, &running)
					time.Sleep(phase)
					b.start(ctx, t, &running)
					for !a.up() || !b.up() {
						if time.Sleep(100 * time.Millisecond); time.Since(began) > soon {
							break
						}
					}
					up := time.Since(began)
					time.Sleep(20 * time.Second) // for attempts that were made before
					before, downs := a.handshakes.Load()+b.handshakes.Load(), a.downs.Load()+b.downs.Load()
					time.Sleep(steady)
					regular := int64(steady/(120*time.Second)) * 2
					// If both ends begin a regular handshake at once, WireGuard drops what is under
					// way with the old keys: packets of one round trip.
					lost := int64(0)
					if 2*delay >= link.Misses*link.Interval {
						lost = regular
					}
					downs = a.downs.Load() + b.downs.Load() - downs
					if n := a.handshakes.Load() + b.handshakes.Load() - before; up > soon || downs > lost || n > regular {
						t.Errorf("up after %v; then down %d times, %d handshakes begun in %v", up, downs, n, steady)
					} else {
						t.Logf("up after %v", up)
					}
					cancel()
					running.Wait()
				})
			})
		}
	}
}

// A load balancer that forgets a flow no longer replaces the source of what the end behind it
// sends. WireGuard at the other end then sends to that address, which leads nowhere.
func TestALinkReturnsToItsEndpointIfPacketsFromElsewhereAreNoAnswers(t *testing.T) {
	if !inVirtualTime(t) {
		return
	}
	synctest.Test(t, func(t *testing.T) {
		one, two := newKey(), newKey()
		a, b := newSlowEnd(one, two, 5*time.Millisecond), newSlowEnd(two, one, 5*time.Millisecond)
		a.other.Store(b)
		b.other.Store(a)
		b.silence() // it waits for a
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var running sync.WaitGroup
		a.start(ctx, t, &running)
		b.start(ctx, t, &running)
		time.Sleep(time.Minute)
		if !a.up() || !b.up() {
			t.Fatal("there is no link")
		}
		b.flow.Store(forgotten)
		time.Sleep(3 * time.Second)
		if at := a.link.wg.session().endpoint; !a.up() || !b.up() || b.flow.Load() != known {
			t.Errorf("3 s later a is up: %v, b is up: %v; a sends to %v", a.up(), b.up(), at)
		}
		cancel()
		running.Wait()
	})
}
