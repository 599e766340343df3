package control

import (
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"strait.dev/strait/internal/ratelimit"
)

const (
	// maxConnections is how many connections a link may have at once: one for announcements and one on which the far
	// end waits for exports, and the next of each while the far end closes the first.
	maxConnections = 4
	// connectInterval is the interval of connections of a link, after connectBurst of them. More are closed.
	connectInterval = time.Second
	connectBurst    = 30
	// requestInterval is the interval of requests of a link, after requestBurst of them. More wait.
	requestInterval = 100 * time.Millisecond
	requestBurst    = 50
)

// admission is a listener that accepts few connections from each link, and none from other sources.
type admission struct {
	net.Listener
	identify func(net.Conn) (Link, bool)

	mu  sync.Mutex
	use map[linkKey]*linkUse // of links with connections, or that had some a moment ago
}

// linkUse is what a link uses of the server.
type linkUse struct {
	open                  int // connections
	connections, requests ratelimit.Bucket
}

func newAdmission(l net.Listener, identify func(net.Conn) (Link, bool)) *admission {
	return &admission{Listener: l, identify: identify, use: make(map[linkKey]*linkUse)}
}

// Accept implements net.Listener.
func (a *admission) Accept() (net.Conn, error) {
	for {
		c, err := a.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if link, ok := a.identify(c); ok && a.enter(link.key(), time.Now()) {
			return &admitted{Conn: c, link: link, leave: sync.OnceFunc(func() { a.exit(link.key()) })}, nil
		}
		c.Close()
	}
}

func (a *admission) enter(k linkKey, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.use[k]
	if u == nil {
		maps.DeleteFunc(a.use, func(_ linkKey, other *linkUse) bool {
			return other.open == 0 && other.connections.Full(now) && other.requests.Full(now)
		})
		u = new(linkUse)
		a.use[k] = u
	}
	if u.open == maxConnections || !u.connections.Take(now, connectInterval, connectBurst) {
		return false
	}
	u.open++
	return true
}

func (a *admission) exit(k linkKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.use[k].open--
}

// paced returns a handler that calls another one, for each link at its rate.
func (a *admission) paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := a.request(r.Context().Value(linkOf{}).(Link).key(), time.Now()); wait > 0 {
			select {
			case <-time.After(wait):
			case <-r.Context().Done(): // the connection has ended
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// request counts a request, and returns how long it has to wait. The link has a connection.
func (a *admission) request(k linkKey, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	u := a.use[k]
	wait := u.requests.Wait(now, requestInterval, requestBurst)
	u.requests.Spend(now, requestInterval, 1)
	return wait
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
