//go:build linux

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

// closeTCP closes accepted connections. The end that closes first keeps the connection in
// TIME-WAIT (RFC 9293 section 3.6.1): this is the listening end, so that the other one does
// not run out of ports.
func closeTCP() error { return acceptEach(portTCPOnce, func(net.Conn) {}) }

// Connect returns when the duration is over. It reports the time of each connection from
// its first packet until the other end's close arrived.
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
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("a connection was not closed correctly: %w", err)
	}
	r.record(began, r.clock.Now())
	return nil
}
