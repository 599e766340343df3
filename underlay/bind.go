//go:build linux

package underlay

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/link"
)

// Bind is the conn.Bind of a link.
type Bind interface {
	conn.Bind
	// UseOwnPort says from which port the link sends after the next Open: from a new one of its
	// own, which the kernel chooses, or from that of the Mux. It receives at both. To a NAT or a
	// load balancer on the path, packets from another port are another flow.
	UseOwnPort(own bool)
}

// linkBind is the Bind of one WireGuard device.
type linkBind struct {
	mux     *Mux
	own     device.NoisePublicKey
	cookies device.CookieChecker     // for initiations to the public key own
	window  *Window                  // nil: no limit on pending messages
	calls   atomic.Pointer[Endpoint] // the last configured address of the peer; nil = none
	talksTo atomic.Pointer[Endpoint] // the address of the peer last sent to; nil = none
	ownPort atomic.Bool
	mu      sync.Mutex              // serialises Open and Close, protects number
	number  uint16                  // the last port opened or asked for; 0 = none
	session atomic.Pointer[session] // nil while closed

	crossing link.Crossing
}

var _ Bind = (*linkBind)(nil)

// UseOwnPort implements Bind.
func (l *linkBind) UseOwnPort(own bool) { l.ownPort.Store(own) }

// Open implements conn.Bind. One function receives for both address families, so that a device has
// one receiving goroutine.
//
// Number 0 is the last port again: WireGuard forgets its port when it cannot be opened, and no peer would find
// the link at another one.
func (l *linkBind) Open(number uint16) (fns []conn.ReceiveFunc, actual uint16, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session.Load() != nil {
		return nil, 0, conn.ErrBindAlreadyOpen
	}
	if number != 0 {
		l.number = number
	}
	s, err := l.mux.openSession(l.number, l)
	if err != nil {
		return nil, 0, err
	}
	l.session.Store(s)
	l.number = s.port.number
	return []conn.ReceiveFunc{s.receive}, l.number, nil
}

// Close implements conn.Bind. Closing a closed link is a no-op.
func (l *linkBind) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.session.Swap(nil)
	if s == nil {
		return nil
	}
	return l.mux.closeSession(s)
}

// SetMark does nothing: marking packets requires a privilege.
func (l *linkBind) SetMark(uint32) error { return nil }

// BatchSize implements conn.Bind.
func (l *linkBind) BatchSize() int { return conn.IdealBatchSize }

// ParseEndpoint implements conn.Bind.
func (l *linkBind) ParseEndpoint(s string) (conn.Endpoint, error) {
	e, err := parseEndpoint(s)
	if err != nil {
		return nil, err
	}
	l.calls.Store(e)
	return e, nil
}

// toward returns the destination for an endpoint. If the link initiates to this address, the kernel
// chooses the source, so that it can follow its routes. A peer that initiated gets answers from the
// address to which it sent.
func (l *linkBind) toward(e *Endpoint) *Destination {
	if calls := l.calls.Load(); calls != nil && calls.addr == e.addr {
		return &e.free
	}
	return e.answer()
}

// Send implements conn.Bind. Losing some datagrams is not an error, because they may also be lost
// later on the path; an error is the reason why all were lost.
//
// The outer header is Not-ECT with DSCP 0: WireGuard neither copies the two fields of the inner
// packet nor uses them on decryption (RFC 6040 section 4.3, compatibility mode). If the path is
// narrower than the interface, the kernel fragments, as it does by default: the ends of the tunnel
// agreed on its MTU and cannot lower it for one path.
func (l *linkBind) Send(bufs [][]byte, to conn.Endpoint) error {
	s := l.session.Load()
	if s == nil {
		return net.ErrClosed
	}
	e, ok := to.(*Endpoint)
	if !ok {
		return conn.ErrWrongEndpointType
	}
	for _, buf := range bufs {
		if index, ok := announces(buf); ok {
			l.mux.routes.learn(index, s)
		}
		if isInitiation(buf) {
			l.crossing.Sent(time.Now())
		}
	}
	if len(bufs) > 0 && l.talksTo.Load() != e && !isCookie(bufs[0]) { // cookies also go to unauthenticated senders
		l.talksTo.Store(e)
	}
	err := l.mux.send(s.sendingPort(), bufs, e, l.toward(e))
	l.window.countSent(bufs)
	return err
}

// send sends to an endpoint through the given destination.
func (m *Mux) send(p *port, bufs [][]byte, e *Endpoint, toward *Destination) error {
	socket := p.socketFor(e)
	if socket == nil {
		return fmt.Errorf("send to %s: %w: this kernel does not support the address family: "+
			"give the peer an address of the other family", e.addr, unix.EAFNOSUPPORT)
	}
	if tap := m.tap.Load(); tap != nil {
		for _, buf := range bufs {
			(*tap)(true, socket.local, e.addr, buf)
		}
	}
	b := m.batches.Get().(*Batch)
	defer m.batches.Put(b)
	sent, dropped := b.sendAll(socket, toward, bufs)
	if dropped > 0 && toward.fixed && refusesSource(b.lastError) {
		e.ClearSrc()
		if sent == 0 {
			sent, dropped = b.sendAll(socket, &e.free, bufs)
		}
	}
	m.sendFailures.Add(uint64(dropped))
	if sent == 0 && dropped > 0 {
		return fmt.Errorf("send to %s: %w", e.addr, b.lastError)
	}
	return nil
}
