//go:build linux

package underlay

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// portAttempts is the number of attempts to find a port, chosen by the kernel for IPv4, that is also
// free for IPv6.
const portAttempts = 100

// port is one UDP port number in both address families, and the state of reading it. Only its reading
// session may call read.
type port struct {
	number uint16
	single bool // of one session; others get nothing from it

	turns     *Turns // of a socket for each family that the kernel supports
	endpoints endpoints
	handed    []*session // sessions with new datagrams since they were last woken

	initiations initiations
}

// openPort listens on all addresses and makes the kernel report the local address of each datagram.
// Number 0 lets the kernel choose.
func openPort(number uint16, o Options) (*port, error) {
	o.LocalAddress = true
	var err error
	for range portAttempts {
		var p *port
		p, err = tryPort(number, o)
		if err == nil || number != 0 || !errors.Is(err, unix.EADDRINUSE) {
			return p, err
		}
	}
	return nil, err
}

func tryPort(number uint16, o Options) (*port, error) {
	p := &port{number: number, turns: NewTurns(), initiations: newInitiations()}
	var unsupported error
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		s, err := Listen(netip.AddrPortFrom(all, p.number), o)
		switch {
		case errors.Is(err, unix.EAFNOSUPPORT):
			unsupported = errors.Join(unsupported, err)
			continue
		case err != nil:
			p.close()
			return nil, err
		}
		p.number = s.LocalAddr().Port()
		s.Classify(byMessage)
		p.turns.Add(s)
	}
	if len(p.sockets()) == 0 {
		return nil, fmt.Errorf("WireGuard needs IPv4 or IPv6: %w", unsupported)
	}
	return p, nil
}

// sockets returns the open sockets.
func (p *port) sockets() []*Socket { return p.turns.sockets }

// socketFor returns the socket that can send to an endpoint, or nil.
func (p *port) socketFor(e *Endpoint) *Socket {
	for _, s := range p.turns.sockets {
		if s.local.Addr().Is6() == e.to.Is6() {
			return s
		}
	}
	return nil
}

// close closes the sockets and returns their overflows.
func (p *port) close() uint64 {
	for _, s := range p.sockets() {
		s.Close()
	}
	return p.overflows()
}

// overflows returns the number of datagrams that the kernel dropped before they were received.
func (p *port) overflows() (all uint64) {
	for _, s := range p.sockets() {
		all += s.Overflows()
	}
	return all
}

// read delivers received datagrams to s until its call is full or one batch is consumed: a datagram never
// waits for further ones. Datagrams for other sessions go to their queues. It reports false if nothing was
// received.
func (p *port) read(s *session) (progress bool) {
	defer p.wake()
	tap := s.link.mux.tap.Load()
	for !s.full() {
		datagram, from, ok := p.turns.Next()
		switch {
		case ok:
			if tap != nil {
				(*tap)(false, p.turns.socket.local, from, datagram)
			}
			p.sort(datagram, from, p.turns.local, s)
			progress = true
		case progress || s.count > 0 || !p.fill(s):
			return progress
		}
	}
	return true
}

// fill receives the next batch from any socket, for the reader s. It reports false if nothing was
// received.
func (p *port) fill(s *session) bool {
	return p.turns.FillAny(s.poller, func(error) { s.link.mux.receiveFailures.Add(1) }) > 0
}

// sort gives a datagram to its session: the reader s, or another. A session that is alone gets everything
// except refused initiations.
func (p *port) sort(datagram []byte, from netip.AddrPort, local netip.Addr, s *session) {
	if isInitiation(datagram) {
		p.admit(datagram, from, local, s)
		return
	}
	owner := s
	if len(s.link.mux.sessions()) > 1 {
		index, ok := addressee(datagram)
		owner = s.link.mux.routes.to(index)
		if !ok || owner == nil || p.single && owner != s { // only the peer of s knows a single port
			s.link.mux.unknown.Add(1)
			return
		}
	}
	sender := p.endpoints.limited(from, local, time.Now)
	if sender == nil {
		s.link.mux.newSenders.Add(1)
		return
	}
	p.give(datagram, sender, owner, s)
}

// give delivers a datagram to a session: directly to the reader s, to another one by its messageQueue,
// unless the port is of s alone.
func (p *port) give(datagram []byte, from *Endpoint, other, s *session) {
	if other == s {
		s.deliver(datagram, from)
		return
	}
	if p.single {
		return
	}
	if !other.queue.put(datagram, from) {
		other.link.mux.inboxFull.Add(1)
	}
	if !other.handed {
		other.handed = true
		p.handed = append(p.handed, other)
	}
}

// wake wakes the sessions that have new datagrams.
func (p *port) wake() {
	for _, other := range p.handed {
		other.handed = false
		other.poller.Wake()
	}
	clear(p.handed)
	p.handed = p.handed[:0]
}
