package relay

import (
	"context"
	"math/rand/v2"
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

	"strait.dev/strait/config"
)

// Dialer opens a TCP connection to a target, like net.Dialer. The connection must have a file descriptor.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Config configures a Relay.
type Config struct {
	// Stack has TCP, UDP and ICMP of both families, and receives no packet yet. The relay uses its clock. The owner
	// of the stack assigns the mapped addresses to NIC.
	Stack *stack.Stack
	NIC   tcpip.NICID

	Limits Limits

	// Dial opens connections to targets. Nil: this machine does, with keepalives.
	Dial Dialer
	// Target opens a socket for a session with a target. Nil: this machine does.
	Target func(address netip.Addr) (Target, error)
	// Source returns the address of the stack from which forwards connect to a target, invalid if there is none.
	// Nil: there are no forwards.
	Source func(to netip.Addr) netip.Addr
	// Choose returns a number from 0 to n-1, for the choice of a target. Safe for concurrent use. Nil: at random.
	Choose func(n int) int
	// Alive reports whether a target answers, until ctx ends. port is one on which it is known to answer TCP, also with
	// a reset, or 0. Nil: probe from this machine.
	Alive func(ctx context.Context, target netip.Addr, port uint16) bool
}

// Relay serves mappings, proxied prefixes and forwards. Safe for concurrent use.
type Relay struct {
	stack  *stack.Stack
	nic    tcpip.NICID
	clock  tcpip.Clock
	limits Limits
	dialer Dialer
	target func(address netip.Addr) (Target, error)

	source func(to netip.Addr) netip.Addr
	choose func(n int) int

	mappings     atomic.Pointer[map[netip.Addr]*mapping] // never nil; replaced, not changed
	proxied      atomic.Pointer[proxied]                 // likewise
	callers      atomic.Pointer[callers]                 // of forwards; likewise
	ofMappings   part
	ofProxy      part
	ofForwards   part
	largeBuffers limit
	smallBuffers limit
	timeWait     limit
	forwarder    *tcp.Forwarder
	echo         echoes
	sessions     sessions

	changing   sync.Mutex // serialises SetMappings, SetProxy and SetForwards
	forwards   map[forwardKey]*forward
	forwarding *scope     // of all forwarded connections
	mu         sync.Mutex // held briefly; protects the fields below, and replacing mappings and proxied
	closed     bool
	attempts   map[stack.TransportEndpointID]*attempt
	pods       map[netip.Addr]*mapping // proxied addresses in use, or recently used
	strays     strays
}

// part has the quotas and counters of mappings, of proxied addresses, or of forwards.
type part struct {
	connections, sessions *usage
	tcp, udp              counters
}

func (r *Relay) newPart(connections, sessions Quota) part {
	now := func() int64 { return sinceStart(r.clock) }
	return part{connections: newUsage(connections, r.limits.Room, now), sessions: newUsage(sessions, r.limits.Room, now)}
}

// scope is what connections and sessions end with: a mapping, a proxied prefix, or all forwards.
type scope struct {
	ctx     context.Context
	end     context.CancelFunc
	running sync.WaitGroup // users of the scope; grows only until it is withdrawn

	withdrawn bool // protected by Relay.mu
}

func newScope() *scope {
	s := new(scope)
	s.ctx, s.end = context.WithCancel(context.Background())
	return s
}

// Keepalives detect a dead far end, on both sides of a connection, after 11 min: with as many probes as Linux sends, but
// much earlier, so that firewalls on the path, which often expire connections after 4 or 5 min, see traffic.
const (
	keepaliveIdle     = 2 * time.Minute
	keepaliveInterval = time.Minute
	keepaliveCount    = 9
)

var keepalive = net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval, Count: keepaliveCount}

// New returns a relay that serves nothing yet. It handles the stack's TCP, UDP and pings for which the stack has no socket;
// those to addresses that are not served are answered by the stack as before.
func New(c Config) *Relay {
	r := &Relay{
		stack: c.Stack, nic: c.NIC, clock: c.Stack.Clock(), limits: c.Limits.withDefaults(), dialer: c.Dial, target: c.Target,
		source: c.Source, choose: c.Choose, forwarding: newScope(),
		attempts: make(map[stack.TransportEndpointID]*attempt), pods: make(map[netip.Addr]*mapping), forwards: make(map[forwardKey]*forward),
	}
	if r.choose == nil {
		r.choose = rand.IntN
	}
	if r.dialer == nil {
		dialer := &net.Dialer{KeepAliveConfig: keepalive}
		r.dialer = dialer.DialContext
	}
	if r.target == nil {
		r.target = newUDPTarget
	}
	r.sessions.of = make(map[sessionKey]*session)
	r.mappings.Store(new(map[netip.Addr]*mapping))
	r.proxied.Store(new(proxied))
	r.callers.Store(new(callers))
	r.ofMappings = r.newPart(r.limits.Connections, r.limits.Sessions)
	r.ofProxy = r.newPart(r.limits.ProxyConnections, r.limits.ProxySessions)
	r.ofForwards = r.newPart(r.limits.ForwardConnections, r.limits.ForwardSessions)
	r.largeBuffers.most, r.smallBuffers.most = int64(r.limits.LargeBuffers), int64(r.limits.SmallBuffers)
	r.timeWait.most = int64(r.limits.TimeWait)
	r.echo.asking.most, r.echo.waiting.most = targetsAsked, waitingPings
	r.echo.alive = c.Alive
	if r.echo.alive == nil {
		r.echo.alive = alive
	}
	var window tcpip.TCPReceiveBufferSizeRangeOption
	if err := c.Stack.TransportProtocolOption(tcp.ProtocolNumber, &window); err != nil {
		panic("relay: a stack without TCP")
	}
	// Attempts count in the quotas of connections, so there are never more.
	r.forwarder = tcp.NewForwarder(c.Stack, window.Default, r.limits.Connections.All+r.limits.ProxyConnections.All, r.accept)
	c.Stack.SetTransportProtocolHandler(tcp.ProtocolNumber, r.segment)
	c.Stack.SetTransportProtocolHandler(udp.ProtocolNumber, r.datagram)
	c.Stack.SetTransportProtocolHandler(icmp.ProtocolNumber4, r.ping)
	c.Stack.SetTransportProtocolHandler(icmp.ProtocolNumber6, r.ping)
	return r
}

// Close ends all connections, sessions and pings, TCP with resets, and waits for them. Later packets are handled as if
// nothing were served. The stack must still be running.
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed, r.forwarding.withdrawn = true, true
	r.mu.Unlock()
	// These cannot fail when nothing is served.
	_ = r.SetMappings(nil)
	_ = r.SetProxy(config.Proxy{})
	_ = r.SetForwards(nil, config.Callers{})
	r.forwarding.end()
	r.forwarding.running.Wait()
}

// use makes the withdrawal of the scope wait for running.Done. It reports false if the scope has been withdrawn.
func (r *Relay) use(s *scope) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return s.useLocked()
}

func (s *scope) useLocked() bool {
	if s.withdrawn {
		return false
	}
	s.running.Add(1)
	return true
}

// withdraw ends scopes, and waits until nothing uses them.
func withdraw(all []*scope) {
	for _, s := range all {
		s.end()
	}
	for _, s := range all {
		s.running.Wait()
	}
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
