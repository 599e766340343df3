package traffic

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Connections asks for TCP connections that carry nothing: opened, closed by the other
// end, closed, and then the next, so many side by side.
type Connections struct {
	To       netip.Addr
	Parallel int
	Duration time.Duration
}

// closeTCP closes what it accepts. Who closes first has to remember the connection for
// a minute (RFC 9293 section 3.6.1): the end that listens, so that the other one does
// not run out of ports.
func closeTCP() error { return acceptEach(portTCPOnce, func(net.Conn) {}) }

// Connect returns when the duration is over, and says how long connections took from
// their first packet until the other end's close had come.
func (e *End) Connect(c Connections, l *Latencies) error {
	seen := newRecorder()
	failed := make([]error, c.Parallel)
	var all sync.WaitGroup
	for i := range failed {
		all.Go(func() {
			for failed[i] == nil && seen.clock.Now() < c.Duration {
				failed[i] = connect(netip.AddrPortFrom(c.To, portTCPOnce), seen)
			}
		})
	}
	all.Wait()
	*l = seen.latencies()
	return errors.Join(failed...)
}

// connect records one connection.
func connect(to netip.AddrPort, r *recorder) error {
	began := r.clock.Now()
	c, err := net.DialTimeout("tcp", to.String(), patience)
	if err != nil {
		return fmt.Errorf("no connection through the gateways: %w", err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		return fmt.Errorf("a connection did not end as it should: %w", err)
	}
	r.record(began, r.clock.Now())
	return nil
}

// Connect opens and closes connections and returns when the duration is over.
func (c *Client) Connect(to Connections) (Latencies, error) {
	return call[Latencies](c, "Connect", to)
}
