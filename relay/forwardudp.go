package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
)

// sessionBuffer is the size in bytes of a flow's queue of received datagrams.
const sessionBuffer = 128 << 10

// flow carries datagrams between one client of a forward and one target. Datagrams of either side refresh it.
type flow struct {
	forward *forward
	client  netip.AddrPort
	target  netip.AddrPort
	stream  *stream
	idle    idle
}

// receive carries the datagrams of clients until the port is closed.
func (f *forward) receive() {
	p := &f.relay.ofForwards
	b := takeBuffer()
	defer giveBuffer(b)
	for {
		n, from, err := f.datagrams.ReadFromUDPAddrPort(b[:])
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // about an earlier datagram
		}
		x := f.flowOf(from)
		if x == nil {
			continue
		}
		x.idle.touch()
		if err := x.stream.sendDatagram(b[:n]); err != nil {
			p.udp.lost.Add(1)
		} else {
			p.udp.toTarget.Add(uint64(n))
		}
	}
}

// flowOf returns the flow of a client, a new one within the quota, or nil.
func (f *forward) flowOf(client netip.AddrPort) *flow {
	f.mu.Lock()
	defer f.mu.Unlock()
	if x := f.flows[client]; x != nil {
		return x
	}
	x, refusal := f.newFlow(client, client.Addr().Unmap())
	if x == nil {
		f.relay.ofForwards.udp.refused[refusal].Add(1)
		return nil
	}
	f.flows[client] = x
	return x
}

func (f *forward) newFlow(client netip.AddrPort, caller netip.Addr) (*flow, Refusal) {
	r, p := f.relay, &f.relay.ofForwards
	if !r.callers.Load().has(caller) {
		return nil, ForeignCaller
	}
	target, _, ok := f.targets.next(nil, r.clock.Now())
	if !ok {
		return nil, NoTarget
	}
	slot, refusal, ok := p.sessions.take(f.place(), caller)
	if !ok {
		return nil, refusal
	}
	s, err := r.dialStream(r.forwarding.ctx, udp.ProtocolNumber, target)
	if err != nil {
		slot.give()
		return nil, refusalOfStack(err)
	}
	x := &flow{forward: f, client: client, target: target, stream: s}
	if !r.use(r.forwarding) {
		s.end.Close()
		slot.give()
		return nil, Withdrawn
	}
	s.end.SocketOptions().SetReceiveBufferSize(sessionBuffer, true)
	p.udp.opened.Add(1)
	x.idle.clock, x.idle.limit, x.idle.expired = r.clock, x.limit, func() { p.udp.expired.Add(1); s.end.Close() }
	x.idle.start()
	slot.hold(&x.idle, func() { p.udp.evicted.Add(1); s.end.Close() })
	go func() {
		defer r.forwarding.running.Done()
		defer slot.give()
		defer context.AfterFunc(r.forwarding.ctx, s.end.Close)()
		x.reply()
	}()
	return x, 0
}

func (x *flow) limit() time.Duration {
	l := &x.forward.relay.limits
	if x.target.Port() == 53 {
		return l.Query
	}
	return l.Session
}

// reply carries the datagrams of the target until the flow ends: when it is idle, when its target reports an error, or when
// its target is removed.
func (x *flow) reply() {
	f, p := x.forward, &x.forward.relay.ofForwards
	for {
		b, n, err := x.stream.receive()
		if err == nil {
			x.idle.touch()
			if _, err := f.datagrams.WriteToUDPAddrPort(b[:n], x.client); err != nil {
				p.udp.lost.Add(1)
			} else {
				p.udp.toCaller.Add(uint64(n))
			}
		}
		giveBuffer(b)
		if err == nil {
			continue
		}
		if !errors.Is(err, io.EOF) { // else it was closed here
			p.udp.refused[TargetRefused].Add(1)
			f.targets.avoid(x.target, f.relay.clock.Now().Add(f.relay.limits.Aside))
		}
		break
	}
	x.idle.stop()
	f.mu.Lock()
	if f.flows[x.client] == x {
		delete(f.flows, x.client)
	}
	f.mu.Unlock()
	x.stream.end.Close()
}

// endStale ends the flows whose targets or callers were removed.
func (f *forward) endStale() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.flows {
		if !f.targets.has(x.target) || !f.relay.callers.Load().has(x.client.Addr().Unmap()) {
			x.stream.end.Close()
		}
	}
}
