package traffic

import (
	"fmt"
	"net"
	"net/netip"
	"time"
)

// FirstPackets asks how long the first packet of a flow takes there and back, and
// how long a later one of a known flow does, in turn.
type FirstPackets struct {
	To       netip.Addr
	Duration time.Duration
}

// FirstPacket is the answer.
type FirstPacket struct{ New, Known Latencies }

// FirstPackets returns when the duration is over. Opening a socket is not timed; what
// a fresh one costs the kernels of both ends is, so compare with a path that has no
// gateway.
func (e *End) FirstPackets(f FirstPackets, result *FirstPacket) error {
	to := netip.AddrPortFrom(f.To, portUDPEcho)
	known, err := net.Dial("udp", to.String())
	if err != nil {
		return err
	}
	defer known.Close()
	fresh, old := newRecorder(), newRecorder()
	for old.clock.Now() < f.Duration {
		c, err := net.Dial("udp", to.String())
		if err != nil {
			return err
		}
		err = ping(c, fresh)
		c.Close()
		if err != nil {
			return err
		}
		if err := ping(known, old); err != nil {
			return err
		}
	}
	*result = FirstPacket{fresh.latencies(), old.latencies()}
	return nil
}

// ping records one round trip of a datagram.
func ping(c net.Conn, to *recorder) error {
	var message [64]byte
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	asked := to.clock.Now()
	if _, err := c.Write(message[:]); err != nil {
		return err
	}
	if _, err := c.Read(message[:]); err != nil {
		return fmt.Errorf("a datagram got no answer: %w", err)
	}
	to.record(asked, to.clock.Now())
	return nil
}

// FirstPackets compares new flows with a known one.
func (c *Client) FirstPackets(f FirstPackets) (FirstPacket, error) {
	return call[FirstPacket](c, "FirstPackets", f)
}
