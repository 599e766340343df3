package relay

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"strait.dev/strait/packet"
)

// Limits of pings. The state of a target is cached for some seconds for all clients, so no client can make the gateway
// probe often, and few pings wait for a probe.
const (
	aliveFor      = 5 * time.Second
	askFor        = time.Second // the default timeout of ping
	targetsAsked  = 64          // at once
	waitingPings  = 64          // total: 4 MiB
	waitingPerOne = 8
)

// echoes answers pings to mapped addresses whose targets are up.
type echoes struct {
	alive func(ctx context.Context, target netip.Addr, port uint16) bool

	asking, waiting         limit // targets and pings
	answered, down, refused atomic.Uint64
}

// aliveness is the cached state of a target.
type aliveness struct {
	mu      sync.Mutex
	asking  bool
	up      bool
	until   time.Time // when it expires, by the stack's clock
	waiting []echo
}

// echo is a received echo request.
type echo struct {
	from    netip.Addr
	message []byte // ICMP
}

// ping handles ICMP that no socket of the stack waits for, and reports whether it did: echo requests to served addresses.
// The stack answers all others.
func (r *Relay) ping(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	m := r.served(pkt.Network().DestinationAddress())
	h := pkt.TransportHeader().Slice()
	if m == nil || len(h) < packet.ICMPHeaderLen || !isEcho(pkt.NetworkProtocolNumber == header.IPv6ProtocolNumber, h[0]) {
		return false
	}
	e := echo{address(id.RemoteAddress), slices.Concat(h, pkt.Data().AsRange().ToSlice())}

	if up, known := r.knows(m, e); known {
		r.answer(m, up, e)
	}
	return true
}

// knows reports whether a target is up, if that is cached. Otherwise the echo is queued.
func (r *Relay) knows(m *mapping, e echo) (up, known bool) {
	a := &m.state
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.asking && r.clock.Now().Before(a.until) {
		return a.up, true
	}
	if !a.asking && !r.startAsking(m) || len(a.waiting) == waitingPerOne || !r.echo.waiting.take() {
		r.echo.refused.Add(1)
		return false, false
	}
	a.waiting = append(a.waiting, e)
	return false, false
}

// startAsking starts a probe of the target, unless too many are running. The mapping's aliveness is locked.
func (r *Relay) startAsking(m *mapping) bool {
	if !r.echo.asking.take() {
		return false
	}
	if !r.use(m.scope) {
		r.echo.asking.give()
		return false
	}
	m.state.asking = true
	go r.ask(m)
	return true
}

func isEcho(v6 bool, kind uint8) bool {
	if v6 {
		return kind == uint8(header.ICMPv6EchoRequest)
	}
	return kind == uint8(header.ICMPv4Echo)
}

// ask probes the target, and answers the waiting pings.
func (r *Relay) ask(m *mapping) {
	defer m.running.Done()
	defer r.echo.asking.give()
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	defer r.clock.AfterFunc(askFor, cancel).Stop()
	up := r.echo.alive(ctx, m.Target, uint16(m.answers.Load()))

	a := &m.state
	a.mu.Lock()
	waiting := a.waiting
	a.asking, a.up, a.until, a.waiting = false, up, r.clock.Now().Add(aliveFor), nil
	a.mu.Unlock()
	for _, e := range waiting {
		r.echo.waiting.give()
		r.answer(m, up, e)
	}
}

// answer sends the reply for a target that is up, within the stack's ICMP rate limit.
func (r *Relay) answer(m *mapping, up bool, e echo) {
	switch {
	case !up:
		r.echo.down.Add(1)
	case !r.stack.AllowICMPMessage():
		r.echo.refused.Add(1)
	default:
		r.echo.answered.Add(1)
		e.message[0] = byte(header.ICMPv4EchoReply)
		if e.from.Is6() {
			e.message[0] = byte(header.ICMPv6EchoReply)
		}
		r.sendICMP(m.External, e.from, e.message)
	}
}
