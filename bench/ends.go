package bench

import (
	"context"
	"errors"
	"net/netip"

	"strait.dev/strait/bench/traffic"
	"strait.dev/strait/gateway"
	"strait.dev/strait/underlay"
)

// ends are the two ends of a path that is measured.
type ends struct {
	path         *traffic.Path
	far          *underlay.Socket
	back         netip.AddrPort                // where the far end sends to
	makeResponse func([]byte) bool             // makes a response of a request at the far end; nil = it is one
	build        func(f flow, size int) []byte // a datagram with an IP packet of size bytes
	close        func() error

	// For whole pods at both ends.
	nearHead, farHead []byte     // what their frames begin with
	farPod            netip.Addr // as the near pod sees it
}

// opener makes ends. offload lets their sockets segment and coalesce.
type opener func(ctx context.Context, offload bool) (*ends, error)

// throughGateways has two gateways between the ends, which are nodes.
func throughGateways(ctx context.Context, offload bool) (*ends, error) {
	p, err := startPair(ctx, offload)
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
		farPod:   planA.remotePod,
	}, nil
}

// throughLoopback has nothing between the ends: what sockets alone cost. Datagrams
// are as long as the frames of nodes.
func throughLoopback(_ context.Context, offload bool) (*ends, error) {
	options := underlay.Options{DisableGRO: !offload, DisableGSO: !offload}
	near, err := underlay.Listen(netip.AddrPortFrom(planA.node, 0), options)
	if err != nil {
		return nil, err
	}
	far, err := underlay.Listen(netip.AddrPortFrom(planB.node, 0), options)
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
		farPod:   planB.pod,
	}, nil
}
