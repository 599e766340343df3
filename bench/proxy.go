package bench

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"strait.dev/strait/internal/plan"
)

// transferProxied is transfer to a cluster without nodes: the sender is a pod behind the node
// of cluster a, and gateway b opens a connection of its own to the receiver, a socket of the
// machine. The CPU time includes the sender's stack and the receiver's kernel.
func transferProxied(streams int, offload bool) func(context.Context, effort) (map[string]float64, error) {
	return func(ctx context.Context, e effort) (_ map[string]float64, err error) {
		// A gateway connects to no pod on loopback: the receiver has the address of one for it.
		listener, err := net.ListenTCP("tcp4", net.TCPAddrFromAddrPort(netip.AddrPortFrom(plan.B.NodeUnderlay, 0)))
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		p, err := startPair(ctx, offload, func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
		})
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		window := windowFor(p.a.node.Features().ReceiveBuffer, streams)
		near, err := startPod(podA, p.a.node, p.a.overlay(), p.a.head(), window)
		if err != nil {
			return nil, err
		}
		defer near.close()
		return measureStreams(ctx, e, listener, streams, func(ctx context.Context) (net.Conn, error) {
			return near.dial(ctx, netip.AddrPortFrom(seenB, port))
		})
	}
}
