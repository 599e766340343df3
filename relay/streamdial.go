package relay

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/waiter"
)

// stackError is an error of the stack.
type stackError struct {
	doing string
	err   tcpip.Error
}

func (e stackError) Error() string { return fmt.Sprintf("host stack: %s: %v", e.doing, e.err) }

// errNoSource is the error of a target of a family in which the gateway has no external address.
var errNoSource = errors.New("no external address")

// dialStream opens a connection or session of the stack to a target, within ctx.
func (r *Relay) dialStream(ctx context.Context, protocol tcpip.TransportProtocolNumber, to netip.AddrPort) (*stream, error) {
	from := r.source(to.Addr())
	if !from.IsValid() {
		return nil, errNoSource
	}
	network := header.IPv4ProtocolNumber
	if to.Addr().Is6() {
		network = header.IPv6ProtocolNumber
	}
	s := &stream{queue: new(waiter.Queue)}
	var err tcpip.Error
	if s.end, err = r.stack.NewEndpoint(protocol, network, s.queue); err != nil {
		return nil, stackError{"open", err}
	}
	if err := s.connect(ctx, r.nic, from, to); err != nil {
		s.end.Abort()
		return nil, err
	}
	return s, nil
}

func (s *stream) connect(ctx context.Context, nic tcpip.NICID, from netip.Addr, to netip.AddrPort) error {
	connected, woken := waiter.NewChannelEntry(waiter.WritableEvents | waiter.EventHUp | waiter.EventErr)
	s.queue.EventRegister(&connected)
	defer s.queue.EventUnregister(&connected)
	if err := s.end.Bind(tcpip.FullAddress{NIC: nic, Addr: stackAddress(from)}); err != nil {
		return stackError{"bind", err}
	}
	err := s.end.Connect(tcpip.FullAddress{NIC: nic, Addr: stackAddress(to.Addr()), Port: to.Port()})
	if _, started := err.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-woken:
		}
		err = s.end.LastError()
	}
	if err != nil {
		return stackError{"connect", err}
	}
	return nil
}

// refusalOfStack classifies an error of dialStream.
func refusalOfStack(err error) Refusal {
	if stack, ok := errors.AsType[stackError](err); ok {
		switch stack.err.(type) {
		case *tcpip.ErrConnectionRefused, *tcpip.ErrConnectionReset, *tcpip.ErrConnectionAborted:
			return TargetRefused
		case *tcpip.ErrHostUnreachable, *tcpip.ErrNetworkUnreachable:
			return TargetUnreachable
		case *tcpip.ErrTimeout:
			return TargetSilent
		}
		return NoSocket
	}
	return refusalOf(err)
}
