package underlay

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// portAttempts is how often a port that the kernel chose for IPv4 may turn out to be
// taken for IPv6.
const portAttempts = 100

// port is one UDP port number in both address families, and the state of reading it.
// Of its sessions only the one that reads may call read.
type port struct {
	number uint16
	v4, v6 *Socket // one may be nil: the kernel runs without that family

	receivers []*Receiver // of v4 and v6
	current   int         // the receiver that brought the last message
	streak    int         // how often in a row it did
	endpoints endpoints
	handed    []*session // sessions given something since they were last woken

	initiations initiations
}

// openPort listens on all addresses, of which the kernel tells the one that was called.
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
	p := &port{number: number, initiations: newInitiations()}
	var err4, err6 error
	p.v4, err4 = Listen(netip.AddrPortFrom(netip.IPv4Unspecified(), number), o)
	if err4 == nil {
		p.number = p.v4.LocalAddr().Port()
	} else if !errors.Is(err4, unix.EAFNOSUPPORT) {
		return nil, err4
	}
	p.v6, err6 = Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), p.number), o)
	if err6 == nil {
		p.number = p.v6.LocalAddr().Port()
	} else if !errors.Is(err6, unix.EAFNOSUPPORT) {
		p.close()
		return nil, err6
	}
	for _, s := range p.sockets() {
		p.receivers = append(p.receivers, NewReceiver(s))
	}
	if len(p.receivers) == 0 {
		return nil, fmt.Errorf("WireGuard needs IPv4 or IPv6: %w", errors.Join(err4, err6))
	}
	return p, nil
}

// sockets are the sockets there are.
func (p *port) sockets() []*Socket {
	var sockets []*Socket
	for _, s := range []*Socket{p.v4, p.v6} {
		if s != nil {
			sockets = append(sockets, s)
		}
	}
	return sockets
}

// socketFor is the socket that can send to an endpoint, or nil.
func (p *port) socketFor(e *Endpoint) *Socket {
	if e.to.Is6() {
		return p.v6
	}
	return p.v4
}

// close closes the sockets and returns their overflows.
func (p *port) close() (overflows uint64) {
	for _, s := range p.sockets() {
		s.Close()
		overflows += s.Overflows()
	}
	return overflows
}

// read gives received datagrams to s until its call is full or one batch is at its
// end: a datagram never waits for more to come. With more sessions than s, what
// belongs to others goes to their inboxes. It reports false if nothing waits for
// anyone.
func (p *port) read(s *session) (progress bool) {
	defer p.wake()
	tap := s.link.mux.tap.Load()
	for !s.full() {
		r := p.receivers[p.current]
		datagram, from, ok := r.Next()
		switch {
		case ok:
			if tap != nil {
				(*tap)(false, r.socket.local, from, datagram)
			}
			p.sort(datagram, p.endpoints.of(from, r.local), s)
			progress = true
		case progress || s.count > 0 || !p.fill(s):
			return progress
		}
	}
	return true
}

// maxStreak is how many batches in a row one address family may bring before the
// other is asked, which is in vain as a rule: peers seldom use both.
const maxStreak = 8

// fill gets the next batch from any socket, for s that reads. It reports false if
// nothing waits.
func (p *port) fill(s *session) bool {
	if p.streak == maxStreak {
		p.turn()
	}
	for range p.receivers {
		n, err := p.receivers[p.current].Fill()
		if err != nil {
			s.link.mux.receiveFailures.Add(1)
		}
		if n >= PauseAt {
			s.poller.Pause()
		}
		if n > 0 {
			p.streak++
			return true
		}
		p.turn()
	}
	return false
}

func (p *port) turn() {
	p.current = (p.current + 1) % len(p.receivers)
	p.streak = 0
}

// sort gives a datagram to the session it is for: s, which reads, or another. A session
// that is alone gets everything but initiations that are refused.
func (p *port) sort(datagram []byte, from *Endpoint, s *session) {
	if isInitiation(datagram) {
		p.admit(datagram, from, s)
		return
	}
	if len(s.link.mux.sessions()) == 1 {
		s.deliver(datagram, from)
		return
	}
	index, ok := addressee(datagram)
	owner := s.link.mux.routes.to(index)
	if !ok || owner == nil {
		s.link.mux.unknown.Add(1)
		return
	}
	p.give(datagram, from, owner, s)
}

// give delivers a datagram to a session: s, which reads, or another by its messageQueue.
func (p *port) give(datagram []byte, from *Endpoint, other, s *session) {
	if other == s {
		s.deliver(datagram, from)
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

// wake lets the sessions that were given something run.
func (p *port) wake() {
	for _, other := range p.handed {
		other.handed = false
		other.poller.Wake()
	}
	clear(p.handed)
	p.handed = p.handed[:0]
}
