package relay

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// attempt is a connection that the target or the client has not answered yet.
type attempt struct {
	m      *mapping
	caller netip.Addr
	syn    []byte // as received, for an ICMP error to quote
	slot   *slot  // of the quota; that of its connection later
}

// segment handles a TCP segment that belongs to no connection of the stack, and reports whether it did: only at a served
// address. The stack answers all others with a reset (RFC 9293 section 3.5.2). It runs on the goroutine that delivers the
// packet, and does not block.
func (r *Relay) segment(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	m := r.served(id.LocalAddress)
	if m == nil || !isValid(id, pkt) {
		return false
	}
	switch flags := header.TCP(pkt.TransportHeader().Slice()).Flags(); {
	case flags.Contains(header.TCPFlagRst):
		return false // never answered
	case flags&(header.TCPFlagSyn|header.TCPFlagAck) != header.TCPFlagSyn:
		return r.stray(m, id)
	}
	a := &attempt{m: m, caller: address(id.RemoteAddress), syn: quote(pkt)}
	mine, refusal, ok := r.begin(id, a, pkt)
	if mine && !ok {
		m.part.tcp.refused[refusal].Add(1)
		r.tell(prohibited, a.syn)
	}
	return mine
}

// isValid reports whether the header of a segment is complete, and its checksum right.
func isValid(id stack.TransportEndpointID, pkt *stack.PacketBuffer) bool {
	h := header.TCP(pkt.TransportHeader().Slice())
	return int(h.DataOffset()) == len(h) &&
		h.IsChecksumValid(id.RemoteAddress, id.LocalAddress, pkt.Data().Checksum(), uint16(pkt.Data().Size()))
}

// stray reports whether it dropped a segment of a connection that this gateway does not have: at first, since another one
// may have it.
func (r *Relay) stray(m *mapping, id stack.TransportEndpointID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.strays.waits(id, r.clock.NowMonotonic()) {
		return false
	}
	m.part.tcp.strays.Add(1)
	return true
}

// begin counts an attempt and starts it, if the segment is for a served address.
func (r *Relay) begin(id stack.TransportEndpointID, a *attempt, pkt *stack.PacketBuffer) (mine bool, refusal Refusal, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.attempts[id] != nil {
		return true, 0, true // a retransmitted SYN; the first one is in progress
	}
	if a.slot, refusal, ok = a.m.part.connections.take(a.m.key(), a.caller); !ok {
		return true, refusal, false
	}
	if a.m.useLocked() {
		r.attempts[id] = a
		if r.forwarder.HandlePacket(id, pkt) { // starts accept
			return true, 0, true
		}
		delete(r.attempts, id) // not a SYN for the stack
		a.m.running.Done()
	}
	a.slot.give()
	return false, 0, false
}

// accept establishes one connection and serves it until it ends. It runs on its own goroutine.
func (r *Relay) accept(request *tcp.ForwarderRequest) {
	id := request.ID()
	r.mu.Lock()
	a := r.attempts[id]
	r.mu.Unlock()
	defer a.m.running.Done()

	c, refusal := r.connect(a, request)
	if c != nil {
		a.m.part.tcp.opened.Add(1)
	} else {
		a.m.part.tcp.refused[refusal].Add(1)
		// Either the client's SYN is answered, or the attempt leaves no trace.
		switch refusal {
		case TargetRefused, Withdrawn:
			request.Complete(true)
		case TargetUnreachable:
			r.tell(hostUnreachable, a.syn)
			request.Complete(false)
		case NoSocket:
			r.tell(prohibited, a.syn)
			request.Complete(false)
		default: // silence; the client retransmits its SYN, which starts another attempt
			request.Complete(false)
		}
	}
	r.mu.Lock()
	delete(r.attempts, id)
	r.mu.Unlock()
	if c == nil {
		a.slot.give()
		return
	}
	c.serve()
}

// connect dials the target and then completes the client's handshake. The request is complete if that succeeds.
func (r *Relay) connect(a *attempt, request *tcp.ForwarderRequest) (*connection, Refusal) {
	port := request.ID().LocalPort
	t, err := r.dial(a.m, port)
	if err != nil {
		refusal := refusalOf(err)
		if refusal == TargetRefused {
			a.m.answers.Store(uint32(port))
		}
		return nil, refusal
	}
	a.m.answers.Store(uint32(port))
	c := &connection{
		relay: r, part: a.m.part, ctx: a.m.ctx, socket: t, stream: &stream{queue: new(waiter.Queue)}, slot: a.slot,
		fromStream: &a.m.part.tcp.toTarget, fromSocket: &a.m.part.tcp.toCaller,
	}
	var terr tcpip.Error
	if c.stream.end, terr = r.handshake(a.m.ctx, request, c.stream.queue); terr != nil {
		t.reset()
		if a.m.ctx.Err() != nil {
			return nil, Withdrawn
		}
		return nil, CallerSilent
	}
	request.Complete(false)
	return c, 0
}

// handshake sends the SYN-ACK and waits for the client's answer, for at most Limits.Dial.
func (r *Relay) handshake(ctx context.Context, request *tcp.ForwarderRequest, queue *waiter.Queue) (tcpip.Endpoint, tcpip.Error) {
	answered := make(chan struct{})
	defer close(answered)
	// The stack gives up when it is woken and there is no connection. It does not report when it has started to wait,
	// so it is woken more than once.
	giveUp := func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			queue.Notify(waiter.WritableEvents)
			select {
			case <-answered:
				return
			case <-tick.C:
			}
		}
	}
	defer r.clock.AfterFunc(r.limits.Dial, giveUp).Stop()
	defer context.AfterFunc(ctx, giveUp)()
	return request.CreateEndpoint(queue)
}

// errSilent is the error of a target that did not answer in time.
var errSilent = errors.New("no answer")

// dial opens a TCP connection to a port of the target, within Limits.Dial.
func (r *Relay) dial(m *mapping, port uint16) (*socket, error) {
	ctx, cancel := context.WithCancelCause(m.ctx)
	defer cancel(nil)
	defer r.clock.AfterFunc(r.limits.Dial, func() { cancel(errSilent) }).Stop()
	c, err := r.dialer(ctx, "tcp", netip.AddrPortFrom(m.Target, port).String())
	if err == nil {
		return newSocket(c)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause // our own limit, or the mapping's end
	}
	return nil, err
}

// refusalOf classifies a dial error.
func refusalOf(err error) Refusal {
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return Withdrawn
	case errors.Is(err, errSilent), errors.As(err, &timeout) && timeout.Timeout():
		return TargetSilent
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return TargetRefused
	case isUnreachable(err):
		return TargetUnreachable
	}
	return NoSocket
}
