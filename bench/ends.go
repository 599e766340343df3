package bench

import (
	"context"
	"errors"
	"net/netip"

	"strait.dev/strait/bench/traffic"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/underlay"
)

// ends are the two ends of a measured path.
type ends struct {
	path         *traffic.Path
	far          *underlay.Socket
	back         netip.AddrPort                // destination of the far end's packets
	makeResponse func([]byte) bool             // turns a request into a response at the far end; nil = it already is one
	build        func(f flow, size int) []byte // a datagram with an IP packet of size bytes
	close        func() error

	// For a pod at each end.
	nearHead, farHead []byte     // the headers of their frames
	farPod            netip.Addr // as the near cluster maps it
}

// opener opens ends. With offload their sockets segment and coalesce.
type opener func(ctx context.Context, offload bool) (*ends, error)

// throughGateways connects the ends, which are nodes, by two gateways.
func throughGateways(ctx context.Context, offload bool) (*ends, error) {
	p, err := startPair(ctx, offload, nil)
	if err != nil {
		return nil, err
	}
	return &ends{
		path:         &traffic.Path{From: p.a.node, To: p.a.overlay(), FixChecksum: fixFrameChecksum},
		far:          p.b.node,
		back:         p.b.overlay(), // a gateway sends from other ports than it listens on
		makeResponse: makeResponse,
		build:        p.a.frame,
		close:        p.close,

		nearHead: p.a.head(),
		farHead:  p.b.head(),
		farPod:   seenB,
	}, nil
}

// throughLoopback connects the ends by frames without gateways: the cost of sockets only.
func throughLoopback(_ context.Context, offload bool) (*ends, error) {
	options := underlay.Options{DisableGRO: !offload, DisableGSO: !offload}
	near, err := underlay.Listen(netip.AddrPortFrom(plan.A.NodeUnderlay, 0), options)
	if err != nil {
		return nil, err
	}
	far, err := underlay.Listen(netip.AddrPortFrom(plan.B.NodeUnderlay, 0), options)
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	return &ends{
		path:  &traffic.Path{From: near, To: far.LocalAddr()},
		far:   far,
		back:  near.LocalAddr(),
		build: func(_ flow, size int) []byte { return make([]byte, gateway.EncapLen+size) },
		close: func() error { return errors.Join(near.Close(), far.Close()) },

		nearHead: make([]byte, gateway.EncapLen),
		farHead:  make([]byte, gateway.EncapLen),
		farPod:   podB,
	}, nil
}
