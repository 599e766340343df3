package tun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"strait.dev/strait/config"
)

// Listen accepts TCP connections from the far ends of links, on the gateway's own link addresses,
// including those of links added later. Nodes, pods and other addresses of the gateway cannot
// connect. A connection ends with its link, which LinkOf returns. Closing the fabric closes the
// listener.
func (f *Fabric) Listen(port uint16) (net.Listener, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &listener{fabric: f, port: port, accepted: make(chan net.Conn), closed: make(chan struct{})}
	for _, e := range f.linkListeners {
		if err := f.listenOn(e, s); err != nil {
			for _, e := range f.linkListeners {
				e.stopListening(s)
			}
			return nil, err
		}
	}
	f.listeners[s] = true
	return s, nil
}

// listener is the net.Listener of one port on all link addresses.
type listener struct {
	fabric   *Fabric
	port     uint16
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// listenOn accepts connections for s at a link listener. f.mu is held.
func (f *Fabric) listenOn(e *linkListener, s *listener) error {
	l, err := f.host.listenTCP(netip.AddrPortFrom(e.address, s.port))
	if err != nil {
		return fmt.Errorf("listen on TCP port %d of %v: %w", s.port, e.address, err)
	}
	e.listeners[s] = l
	f.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			s.offer(c.(*gonet.TCPConn))
		}
	})
	return nil
}

// stopListening reverses listenOn.
func (e *linkListener) stopListening(s *listener) {
	if l := e.listeners[s]; l != nil {
		delete(e.listeners, s)
		l.Shutdown() // ends Accept
		l.Close()
	}
}

// offer passes a connection to Accept if it came over a link.
func (s *listener) offer(c *gonet.TCPConn) {
	held := s.fabric.hold(c)
	if held == nil {
		c.Close()
		return
	}
	select {
	case s.accepted <- held:
	case <-s.closed:
		held.Close()
	}
}

// Accept implements net.Listener.
func (s *listener) Accept() (net.Conn, error) {
	select {
	case c := <-s.accepted:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener: the port, with an unspecified address.
func (s *listener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv6unspecified, Port: int(s.port)}
}

// Close implements net.Listener. Accepted connections stay.
func (s *listener) Close() error {
	s.fabric.mu.Lock()
	defer s.fabric.mu.Unlock()
	s.close()
	return nil
}

// close is Close with the fabric's mu held.
func (s *listener) close() {
	s.once.Do(func() {
		close(s.closed)
		delete(s.fabric.listeners, s)
		for _, e := range s.fabric.linkListeners {
			e.stopListening(s)
		}
	})
}

// LinkOf returns the link of a connection from Listen or DialLink. It is false when the link has
// ended.
func (f *Fabric) LinkOf(c net.Conn) (LinkIdentity, bool) {
	l := f.linkUnder(c)
	if l == nil {
		return LinkIdentity{}, false
	}
	return l.identity(), true
}

func (f *Fabric) linkUnder(c net.Conn) *Link {
	local, ok1 := c.LocalAddr().(*net.TCPAddr)
	remote, ok2 := c.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 || local == nil || remote == nil {
		return nil
	}
	return f.linkBetween(local.AddrPort().Addr().WithZone(""), remote.AddrPort().Addr().WithZone(""))
}

// DialLink opens a TCP connection through the tunnel to the far end of the link with these public
// keys. The connection ends with the link.
func (f *Fabric) DialLink(ctx context.Context, own, remote config.Key, port uint16) (net.Conn, error) {
	for _, l := range *f.links.Load() {
		if config.Key(l.key.own) != own || config.Key(l.key.remote) != remote {
			continue
		}
		c, err := f.host.dialTCP(ctx, l.own, netip.AddrPortFrom(l.far, port))
		if err != nil {
			return nil, fmt.Errorf("link %s: connect to the far end's TCP port %d: %w", l.identity().Name, port, err)
		}
		if held := f.hold(c); held != nil {
			return held, nil
		}
		c.Close()
	}
	return nil, errors.New("no link has these keys: the link may have been removed")
}

// stream is a TCP connection over a link.
type stream struct {
	*gonet.TCPConn
	link *Link
}

// hold binds a connection to its link. It returns nil if there is no such link.
func (f *Fabric) hold(c *gonet.TCPConn) net.Conn {
	l := f.linkUnder(c)
	if l == nil {
		return nil
	}
	s := &stream{c, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.streams[s] = true
	return s
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.link.mu.Lock()
	delete(s.link.streams, s)
	s.link.mu.Unlock()
	return s.TCPConn.Close()
}

// closeStreams closes the link's connections and prevents new ones.
func (l *Link) closeStreams() {
	l.mu.Lock()
	l.closed = true
	open := l.streams
	l.streams = nil // delete on a nil map is a no-op
	l.mu.Unlock()
	for s := range open {
		s.TCPConn.Close()
	}
}
