package control

import (
	"net"
	"sync"
)

// maxConnections is how many connections a link may have at once: one for announcements and one on which the far end
// waits for exports, and the next of each while the far end closes the first.
const maxConnections = 4

// admission is a listener that accepts few connections from each link, and none from other sources.
type admission struct {
	net.Listener
	identify func(net.Conn) (Link, bool)

	mu   sync.Mutex
	open map[linkKey]int
}

func newAdmission(l net.Listener, identify func(net.Conn) (Link, bool)) *admission {
	return &admission{Listener: l, identify: identify, open: make(map[linkKey]int)}
}

// Accept implements net.Listener.
func (a *admission) Accept() (net.Conn, error) {
	for {
		c, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if link, ok := a.identify(c); ok && a.enter(link.key()) {
			return &admitted{Conn: c, link: link, leave: sync.OnceFunc(func() { a.exit(link.key()) })}, nil
		}
		c.Close()
	}
}

func (a *admission) enter(k linkKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[k] == maxConnections {
		return false
	}
	a.open[k]++
	return true
}

func (a *admission) exit(k linkKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open[k]--; a.open[k] == 0 {
		delete(a.open, k)
	}
}

// admitted is a connection that counts until it is closed.
type admitted struct {
	net.Conn
	link  Link
	leave func()
}

// Close implements net.Conn.
func (c *admitted) Close() error {
	c.leave()
	return c.Conn.Close()
}

// CloseWrite lets net/http finish an answer before it closes a connection on which the client is still sending: a
// reset would discard the answer.
func (c *admitted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
