package tun

import (
	"fmt"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

// The limits of the host stack, including all state that senders of packets can create:
//
//	packets sent and not taken    hostQueue
//	fragments                     4 MiB in each family, for 30 s (IPv4) or 60 s (IPv6); the oldest go first
//	                              (the stack's own constants, which cannot be changed)
//	ICMP, errors and replies      icmpRate a second, icmpBurst at once, all together
//	a TCP connection              the buffers below
//	TCP connections               streamBacklog for each listener, and relay.Limits
//	UDP                           what relay.Limits allow
//	out of order segments         part of the receive buffer
//
// Buffers start with bufferDefault and grow to bufferMost while they limit a connection: 1 MiB
// is 1 Gbit/s over 8 ms. The other end of a connection is in this process or one tunnel away.
const (
	bufferLeast   = 4 << 10
	bufferDefault = 128 << 10
	bufferMost    = 1 << 20
)

// timeWait is how long a closed connection stays in TIME-WAIT, so that late segments are not
// taken for those of a new one. RFC 9293 uses 2 * 2 min; no tunnel delays a packet that long.
const timeWait = 10 * time.Second

const (
	icmpRate  = 1000 // per second
	icmpBurst = 100
)

// limitStack sets the limits, before the stack has any connection.
func limitStack(s *stack.Stack) error {
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: bufferLeast, Default: bufferDefault, Max: bufferMost}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: bufferLeast, Default: bufferDefault, Max: bufferMost}
	wait := tcpip.TCPTimeWaitTimeoutOption(timeWait)
	for _, option := range []tcpip.SettableTransportProtocolOption{&receive, &send, &wait} {
		if err := s.SetTransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			return fmt.Errorf("host stack: set %T: %v", option, err)
		}
	}
	s.SetICMPLimit(icmpRate)
	s.SetICMPBurst(icmpBurst)
	return nil
}
