//go:build linux

package traffic

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// FirstPackets returns when the duration is over. Opening a socket is not timed, and
// happens before every request, so that the same pause precedes all. The cost of a new
// socket in the kernels of both ends is included, so compare with a path that has no
// gateway.
func (e *End) FirstPackets(f FirstPackets, result *FirstPacket) error {
	to := netip.AddrPortFrom(f.To, portUDPEcho).String()
	known, err := net.Dial("udp", to)
	if err != nil {
		return err
	}
	defer known.Close()
	fresh, old := newRecorder(), newRecorder()
	var extra []time.Duration
	for old.clock.Now() < f.Duration {
		var took [2]time.Duration // of the new flow, of the known one
		for i := range 2 {
			c, err := net.Dial("udp", to)
			if err != nil {
				return err
			}
			// The order alternates.
			if (i+len(extra))%2 == 0 {
				took[0], err = ping(c, fresh)
			} else {
				took[1], err = ping(known, old)
			}
			c.Close()
			if err != nil {
				return err
			}
		}
		extra = append(extra, took[0]-took[1])
	}
	slices.Sort(extra)
	*result = FirstPacket{fresh.latencies(), old.latencies(), extra[len(extra)/2]}
	return nil
}

// ping records one round trip of a datagram.
func ping(c net.Conn, to *recorder) (took time.Duration, err error) {
	var message [64]byte
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	asked := to.clock.Now()
	if _, err := c.Write(message[:]); err != nil {
		return 0, err
	}
	if _, err := c.Read(message[:]); err != nil {
		return 0, fmt.Errorf("a datagram got no response: %w", err)
	}
	answered := to.clock.Now()
	to.record(asked, answered)
	return answered - asked, nil
}
