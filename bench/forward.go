package bench

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/plan"
)

// transferForwarded is transfer through a forward of gateway a: the sender connects to its
// port with a socket of the machine, and the receiver is a pod behind the node of cluster b.
// The CPU time includes the sender's kernel and the receiver's stack.
func transferForwarded(streams int, offload bool) func(context.Context, effort) (map[string]float64, error) {
	return func(ctx context.Context, e effort) (_ map[string]float64, err error) {
		p, err := startPair(ctx, offload, nil)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		window := windowFor(p.b.node.Features().ReceiveBuffer, streams)
		far, err := startPod(podB, p.b.node, p.b.overlay(), p.b.head(), window)
		if err != nil {
			return nil, err
		}
		defer far.close()
		listener, err := far.listen(netip.AddrPortFrom(podB, port))
		if err != nil {
			return nil, err
		}
		listen, err := p.forward(netip.AddrPortFrom(seenB, port))
		if err != nil {
			return nil, err
		}
		return measureStreams(ctx, e, listener, streams, func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", listen.String())
		})
	}
}

// forward makes gateway a forward a free TCP port.
func (p *pair) forward(target netip.AddrPort) (listen config.ListenAddress, err error) {
	l, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(plan.A.GatewayUnderlay, 0)))
	if err != nil {
		return listen, err
	}
	at := l.Addr().(*net.TCPAddr).AddrPort()
	if err := l.Close(); err != nil {
		return listen, err
	}
	listen = config.ListenAddress{Addr: at.Addr(), Port: at.Port()}
	return listen, p.a.Fabric().Relay.SetForwards([]config.Forward{{Protocol: config.TCP, Listen: listen, Targets: []netip.AddrPort{target}}},
		config.Callers{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}
