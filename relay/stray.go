package relay

import (
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

const (
	// strayTime is for how long segments of a connection that this gateway does not have are dropped instead of reset. The
	// connection may be that of another gateway of the cluster: when no link to that one works, its segments come here
	// after 0.3 to 0.5 s, and return 2 s after a link to it works again. If that gateway is gone, clients learn it this
	// much later.
	strayTime = 4 * time.Second
	// strayAge is the least time for which such a connection is remembered: longer than TCP waits between its first
	// retransmissions, so that a connection that is gone is reset by one of them.
	strayAge = 20 * time.Second
	// maxStrays limits the connections that are remembered in strayAge.
	maxStrays = 4096
)

// strays are connections that this gateway does not have, by the time of their first segment. They are forgotten
// between strayAge and twice as long after it. Not safe for concurrent use.
type strays struct {
	recent, older map[stack.TransportEndpointID]tcpip.MonotonicTime
	turned        tcpip.MonotonicTime // when recent was begun
}

// waits reports whether another segment of a connection is to be dropped instead of reset.
func (s *strays) waits(id stack.TransportEndpointID, now tcpip.MonotonicTime) bool {
	if since := now.Sub(s.turned); s.recent == nil || since >= strayAge {
		s.older = s.recent
		if since >= 2*strayAge {
			s.older = nil
		}
		s.recent, s.turned = make(map[stack.TransportEndpointID]tcpip.MonotonicTime), now
	}
	first, known := s.recent[id]
	if !known {
		first, known = s.older[id]
	}
	if !known {
		if len(s.recent) == maxStrays {
			return false
		}
		s.recent[id], first = now, now
	}
	return now.Sub(first) < strayTime
}
