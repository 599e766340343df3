//go:build linux

package underlay

import (
	"fmt"
	"net"
	"runtime"
	"slices"
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

// session is a link between Open and Close.
type session struct {
	link   *linkBind
	port   *port // of the Mux
	own    *port // of this session; nil = none
	poller *Poller
	reads  atomic.Bool // whether this session reads the port
	queue  messageQueue
	bounds pending
	known  bool   // whether index is one of the link's
	index  uint32 // of the last data message
	handed bool   // whether it is in port.handed; owned by the reading session

	attempt func() bool // the method value of try, created once because that allocates

	// The current call of receive.
	packets [][]byte
	sizes   []int
	senders []conn.Endpoint
	count   int  // datagrams delivered
	refused bool // further datagrams were refused: WireGuard has too many pending
}

func newSession(l *linkBind, p *port) (*session, error) {
	poller, err := NewPoller()
	if err != nil {
		return nil, err
	}
	s := &session{link: l, port: p, poller: poller, bounds: newPending(l.window)}
	s.attempt = s.try
	return s, nil
}

// takeOver makes s the reader of the port. No other session may be reading it.
func (s *session) takeOver() error {
	for _, socket := range s.port.sockets() {
		if err := s.poller.Add(socket); err != nil {
			return err
		}
	}
	s.reads.Store(true)
	s.poller.Wake() // for datagrams that the port has received but not delivered
	return nil
}

// openOwn opens a port of the session's own. The Mux closes it.
func (s *session) openOwn(o Options) (err error) {
	if s.own, err = openPort(0, o); err != nil {
		return err
	}
	s.own.single = true
	for _, socket := range s.own.sockets() {
		if err := s.poller.Add(socket); err != nil {
			s.own.close()
			return err
		}
	}
	return nil
}

// sendingPort returns the port from which the session sends.
func (s *session) sendingPort() *port {
	if s.own != nil {
		return s.own
	}
	return s.port
}

// receive is the session's conn.ReceiveFunc.
func (s *session) receive(packets [][]byte, sizes []int, senders []conn.Endpoint) (n int, err error) {
	flood := s.count >= ReceiveBatch
	s.packets, s.sizes, s.senders, s.count = packets, sizes, senders, 0
	s.bounds.look()
	for s.count == 0 {
		if flood || s.refused {
			// Let the goroutines that the last call woke run first: in a flood this goroutine
			// never parks, and would only fill WireGuard's queues.
			runtime.Gosched()
			flood, s.refused = false, false
		}
		if err := s.poller.Wait(s.attempt); err != nil {
			return 0, err
		}
	}
	s.bounds.publish()
	return s.count, nil
}

// try delivers available datagrams, those of the queue first: it was filled before s became the
// reader. Progress includes datagrams for other sessions, so that a session without its own still
// returns from Wait to be closed.
func (s *session) try() (progress bool) {
	for !s.full() {
		datagram, from, ok := s.queue.take()
		if !ok {
			break
		}
		s.deliver(datagram, from)
	}
	own := s.own != nil && s.own.read(s)
	if s.reads.Load() && s.port.read(s) {
		return true
	}
	return own || s.count > 0
}

func (s *session) full() bool { return s.count == len(s.packets) }

// deliver copies a datagram to WireGuard, whose buffers hold any size, unless WireGuard has too
// many pending messages.
func (s *session) deliver(datagram []byte, from *Endpoint) {
	if s.bounds.window != nil && s.queues(datagram) {
		if !s.bounds.hasCapacity(len(datagram) == ControlSize, time.Now) {
			s.link.mux.inboxFull.Add(1)
			s.refused = true
			return
		}
		s.bounds.pass(datagram)
	}
	if isResponse(datagram) {
		s.link.crossing.Answered(time.Now())
	}
	s.sizes[s.count] = copy(s.packets[s.count], datagram)
	s.senders[s.count] = from
	s.count++
}

// keep delivers an initiation of the peer after a time, unless one of this end is answered until then.
func (s *session) keep(datagram []byte, from *Endpoint, wait time.Duration) {
	arrived, kept := time.Now(), slices.Clone(datagram)
	time.AfterFunc(wait, func() {
		if !s.link.crossing.Obsolete(arrived) && s.queue.put(kept, from) {
			s.poller.Wake()
		}
	})
}
