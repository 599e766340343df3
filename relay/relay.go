package relay

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// Config configures a Relay.
type Config struct {
	// Stack has TCP, UDP and ICMP of both families, and receives no packet yet. The relay uses its clock. The owner
	// of the stack assigns the mapped addresses to NIC.
	Stack *stack.Stack
	NIC   tcpip.NICID

	Limits Limits

	// Dial opens a connection to a target, "tcp" or "udp", like net.Dialer; the connection must have a file
	// descriptor. Nil: dial from this machine, with keepalives.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Alive reports whether a target answers, until ctx ends. port is one on which it is known to answer TCP, also with
	// a reset, or 0. Nil: probe from this machine.
	Alive func(ctx context.Context, target netip.Addr, port uint16) bool
}

// Relay serves mappings. Safe for concurrent use.
type Relay struct {
	stack  *stack.Stack
	nic    tcpip.NICID
	clock  tcpip.Clock
	limits Limits
	dialer func(ctx context.Context, network, address string) (net.Conn, error)

	mappings     atomic.Pointer[map[netip.Addr]*mapping] // never nil; replaced, not changed
	connections  *usage
	sessions     *usage
	largeBuffers limit
	timeWait     limit
	forwarder    *tcp.Forwarder
	tcp, udp     counters
	echo         echoes

	changing sync.Mutex // serialises SetMappings
	mu       sync.Mutex // held briefly; protects the fields below, and replacing mappings
	closed   bool
	attempts map[stack.TransportEndpointID]*attempt
}

// Keepalives detect a dead far end, on both sides of a connection, after 11 min: with as many probes as Linux sends, but
// much earlier, so that firewalls on the path, which often expire connections after 4 or 5 min, see traffic.
const (
	keepaliveIdle     = 2 * time.Minute
	keepaliveInterval = time.Minute
	keepaliveCount    = 9
)

// New returns a relay without mappings. It handles the stack's TCP, UDP and pings for which the stack has no socket;
// those to unmapped addresses are answered by the stack as before.
func New(c Config) *Relay {
	r := &Relay{
		stack: c.Stack, nic: c.NIC, clock: c.Stack.Clock(), limits: c.Limits.withDefaults(), dialer: c.Dial,
		attempts: make(map[stack.TransportEndpointID]*attempt),
	}
	if r.dialer == nil {
		dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval, Count: keepaliveCount,
		}}
		r.dialer = dialer.DialContext
	}
	r.mappings.Store(new(map[netip.Addr]*mapping))
	r.connections, r.sessions = newUsage(r.limits.Connections), newUsage(r.limits.Sessions)
	r.largeBuffers.most, r.timeWait.most = int64(r.limits.LargeBuffers), int64(r.limits.TimeWait)
	r.echo.asking.most, r.echo.waiting.most = targetsAsked, waitingPings
	r.echo.alive = c.Alive
	if r.echo.alive == nil {
		r.echo.alive = alive
	}
	var window tcpip.TCPReceiveBufferSizeRangeOption
	if err := c.Stack.TransportProtocolOption(tcp.ProtocolNumber, &window); err != nil {
		panic("relay: a stack without TCP")
	}
	// Attempts count in the quota of connections, so there are never more.
	r.forwarder = tcp.NewForwarder(c.Stack, window.Default, r.limits.Connections.All, r.accept)
	c.Stack.SetTransportProtocolHandler(tcp.ProtocolNumber, r.segment)
	c.Stack.SetTransportProtocolHandler(udp.ProtocolNumber, r.datagram)
	c.Stack.SetTransportProtocolHandler(icmp.ProtocolNumber4, r.ping)
	c.Stack.SetTransportProtocolHandler(icmp.ProtocolNumber6, r.ping)
	return r
}

// Close ends all connections, sessions and pings, TCP with resets, and waits for them. Later packets are handled as if
// there were no mapping. The stack must still be running.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	_ = r.SetMappings(nil) // cannot fail without mappings
}

// use makes SetMappings wait for m.running.Done, unless the mapping has been withdrawn.
func (r *Relay) use(m *mapping) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.useLocked(m)
}

func (r *Relay) useLocked(m *mapping) bool {
	if (*r.mappings.Load())[m.External] != m {
		return false
	}
	m.running.Add(1)
	return true
}

// limit is a counter with a maximum. Safe for concurrent use.
type limit struct {
	most int64
	now  atomic.Int64
}

func (l *limit) take() bool {
	if l.now.Add(1) <= l.most {
		return true
	}
	l.now.Add(-1)
	return false
}

func (l *limit) give() { l.now.Add(-1) }
