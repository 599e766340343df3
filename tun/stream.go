package tun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"strait.dev/strait/config"
)

// Streams are TCP connections between the hosts at both ends of a link. Nodes, pods and other addresses of the gateway
// cannot connect. A connection ends with its link. Safe for concurrent use.
type Streams struct {
	host  *Host
	links *linkList
	done  sync.WaitGroup // of goroutines that accept

	mu        sync.Mutex // protects the fields below, and the sockets of listeners
	addresses []netip.Addr
	listeners map[*listener]bool
	open      map[*stream]bool
}

func newStreams(h *Host, links *linkList) *Streams {
	return &Streams{host: h, links: links, listeners: make(map[*listener]bool), open: make(map[*stream]bool)}
}

// Listen accepts connections from the far ends of links, including those of links added later. LinkOf returns the link of
// a connection. Closing the fabric closes the listener.
func (s *Streams) Listen(port uint16) (net.Listener, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &listener{streams: s, port: port, sockets: make(map[netip.Addr]*gonet.TCPListener), accepted: make(chan net.Conn), closed: make(chan struct{})}
	if err := l.follow(s.addresses); err != nil {
		_ = l.follow(nil) // opens nothing
		return nil, err
	}
	s.listeners[l] = true
	return l, nil
}

// Dial opens a connection to the far end of the link with these public keys.
func (s *Streams) Dial(ctx context.Context, own, remote config.Key, port uint16) (net.Conn, error) {
	for _, l := range s.links.all() {
		if config.Key(l.key.own) != own || config.Key(l.key.remote) != remote {
			continue
		}
		c, err := s.host.dialTCP(ctx, l.own, netip.AddrPortFrom(l.far, port))
		if err != nil {
			return nil, fmt.Errorf("link %s: connect to the far end's TCP port %d: %w", l.identity().Name, port, err)
		}
		if held := s.hold(c); held != nil {
			return held, nil
		}
		c.Close()
	}
	return nil, errors.New("no link has these keys: the link may have been removed")
}

// LinkOf returns the link of a connection from Listen or Dial. It is false when the link has ended.
func (s *Streams) LinkOf(c net.Conn) (LinkIdentity, bool) {
	l := s.linkUnder(c)
	if l == nil {
		return LinkIdentity{}, false
	}
	return l.identity(), true
}

func (s *Streams) linkUnder(c net.Conn) *Link {
	local, ok1 := c.LocalAddr().(*net.TCPAddr)
	remote, ok2 := c.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 || local == nil || remote == nil {
		return nil
	}
	return s.links.between(local.AddrPort().Addr().WithZone(""), remote.AddrPort().Addr().WithZone(""))
}

// hold binds a connection to its link. It returns nil if there is no such link.
func (s *Streams) hold(c *gonet.TCPConn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.linkUnder(c)
	if l == nil {
		return nil
	}
	held := &stream{c, s, l}
	s.open[held] = true
	return held
}

// follow replaces the link addresses at which listeners accept. The host has them all.
func (s *Streams) follow(addresses []netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addresses = addresses
	var err error
	for l := range s.listeners {
		err = errors.Join(err, l.follow(addresses))
	}
	return err
}

// closeOf closes the connections of a link that is no longer in the list of links.
func (s *Streams) closeOf(l *Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.open {
		if c.link == l {
			delete(s.open, c)
			c.TCPConn.Close()
		}
	}
}

// close closes all listeners, and waits for their goroutines.
func (s *Streams) close() {
	s.mu.Lock()
	for l := range s.listeners {
		l.close()
	}
	s.mu.Unlock()
	s.done.Wait()
}

// listener is the net.Listener of one port on all link addresses.
type listener struct {
	streams  *Streams
	port     uint16
	sockets  map[netip.Addr]*gonet.TCPListener // protected by streams.mu
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

// follow accepts connections at these addresses and no others. streams.mu is held.
func (l *listener) follow(addresses []netip.Addr) error {
	for at, socket := range l.sockets {
		if !slices.Contains(addresses, at) {
			delete(l.sockets, at)
			socket.Shutdown() // ends Accept
			socket.Close()
		}
	}
	for _, at := range addresses {
		if l.sockets[at] != nil {
			continue
		}
		socket, err := l.streams.host.listenTCP(netip.AddrPortFrom(at, l.port))
		if err != nil {
			return fmt.Errorf("listen on TCP port %d of %v: %w", l.port, at, err)
		}
		l.sockets[at] = socket
		l.streams.done.Go(func() { l.acceptFrom(socket) })
	}
	return nil
}

// acceptFrom passes the connections of a socket that came over a link to Accept, until the socket is closed.
func (l *listener) acceptFrom(socket *gonet.TCPListener) {
	for {
		c, err := socket.Accept()
		if err != nil {
			return // closed
		}
		held := l.streams.hold(c.(*gonet.TCPConn))
		if held == nil {
			c.Close()
			continue
		}
		select {
		case l.accepted <- held:
		case <-l.closed:
			held.Close()
		}
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener: the port, with an unspecified address.
func (l *listener) Addr() net.Addr {
	return &net.TCPAddr{IP: net.IPv6unspecified, Port: int(l.port)}
}

// Close implements net.Listener. Accepted connections stay.
func (l *listener) Close() error {
	l.streams.mu.Lock()
	defer l.streams.mu.Unlock()
	l.close()
	return nil
}

// close is Close with streams.mu held.
func (l *listener) close() {
	l.once.Do(func() {
		close(l.closed)
		delete(l.streams.listeners, l)
		_ = l.follow(nil) // opens nothing
	})
}

// stream is a TCP connection over a link.
type stream struct {
	*gonet.TCPConn
	streams *Streams
	link    *Link
}

// Close implements net.Conn.
func (c *stream) Close() error {
	c.streams.mu.Lock()
	delete(c.streams.open, c)
	c.streams.mu.Unlock()
	return c.TCPConn.Close()
}
