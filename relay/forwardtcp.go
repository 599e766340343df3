package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
)

const (
	// triesOfForward is how many targets are tried for one connection.
	triesOfForward = 3
	// acceptPause is the time until the next try to accept when the machine is out of file descriptors.
	acceptPause = 50 * time.Millisecond
)

// accept accepts connections until the listener is closed.
func (f *forward) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err == nil {
			f.admit(c)
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		paused := make(chan struct{})
		f.relay.clock.AfterFunc(acceptPause, func() { close(paused) })
		select {
		case <-paused:
		case <-f.relay.forwarding.ctx.Done():
			return
		}
	}
}

// admit serves a connection of a caller within the quota, or resets it.
func (f *forward) admit(c net.Conn) {
	r, p := f.relay, &f.relay.ofForwards
	s, err := newSocket(c)
	if err != nil {
		return // closed
	}
	caller := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if !r.callers.Load().has(caller) {
		p.tcp.refused[ForeignCaller].Add(1)
		s.reset()
		return
	}
	slot, refusal, ok := p.connections.take(f.place(), caller)
	if !ok {
		p.tcp.refused[refusal].Add(1)
		s.reset()
		return
	}
	if !r.use(r.forwarding) {
		slot.give()
		s.reset()
		return
	}
	go func() {
		defer r.forwarding.running.Done()
		f.carry(s, slot)
	}()
}

// carry connects to a target and serves the connection until it ends.
func (f *forward) carry(s *socket, place *slot) {
	r, p := f.relay, &f.relay.ofForwards
	to, refusal := f.connect()
	if to == nil {
		p.tcp.refused[refusal].Add(1)
		s.reset()
		place.give()
		return
	}
	p.tcp.opened.Add(1)
	c := &connection{
		relay: r, part: p, ctx: r.forwarding.ctx, socket: s, stream: to, slot: place,
		fromSocket: &p.tcp.toTarget, fromStream: &p.tcp.toCaller,
	}
	c.serve()
}

// connect connects to one of the targets. Those to which it cannot connect are avoided.
func (f *forward) connect() (*stream, Refusal) {
	r := f.relay
	ctx, cancel := context.WithCancelCause(r.forwarding.ctx)
	defer cancel(nil)
	defer r.clock.AfterFunc(r.limits.Dial, func() { cancel(errSilent) }).Stop()
	refusal := NoTarget
	var tried []netip.AddrPort
	for len(tried) < triesOfForward && ctx.Err() == nil {
		a, more, ok := f.targets.next(tried, r.clock.Now())
		if !ok {
			break
		}
		tried = append(tried, a)
		s, err := f.try(ctx, a, more > 0 && len(tried) < triesOfForward)
		if err == nil {
			return s, 0
		}
		if refusal = refusalOfStack(err); refusal == TargetRefused || refusal == TargetUnreachable || refusal == TargetSilent {
			f.targets.avoid(a, r.clock.Now().Add(r.limits.Aside))
		}
	}
	return nil, refusal
}

// try connects to a target, for Limits.Try if there are others.
func (f *forward) try(ctx context.Context, a netip.AddrPort, others bool) (*stream, error) {
	if others {
		tryCtx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer f.relay.clock.AfterFunc(f.relay.limits.Try, func() { cancel(errSilent) }).Stop()
		ctx = tryCtx
	}
	return f.relay.dialStream(ctx, tcp.ProtocolNumber, a)
}
