package bench

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/plan"
	"strait.dev/strait/relay"
	"strait.dev/strait/underlay"
)

var (
	nodeInternal, gatewayInternal = plan.NodeInternal[plan.V4], plan.GatewayInternal[plan.V4]

	podA, podB = plan.A.Address[plan.V4], plan.B.Address[plan.V4]
	seenB      = plan.B.PodSeen[plan.V4] // pod b as cluster a maps it
)

// conversation returns a flow from pod a to pod b over an IP version.
func conversation(version int, sport uint16) flow {
	f := plan.V4
	if version == 6 {
		f = plan.V6
	}
	return flow{plan.A.Address[f], plan.B.PodSeen[f], sport, port}
}

// side is one cluster: a real gateway, and the socket of its only node.
type side struct {
	plan.Cluster
	node *underlay.Socket
	*daemon.Daemon
	listens uint16 // the port of WireGuard, 0 if it only connects
}

// startSide starts a gateway and a node's socket on the same port number. wireGuard has the
// keys and peers; if listens, peers can connect to it. With offload the node's socket segments and
// coalesces. If dial is not nil, the gateway has no node, and connects to pods by dial.
func startSide(p plan.Cluster, wireGuard config.WireGuard, listens, offload bool, dial relay.Dialer) (s *side, err error) {
	options := underlay.Options{DisableGRO: !offload, DisableGSO: !offload}
	err = plan.Retry(func() error {
		node, err := underlay.Listen(netip.AddrPortFrom(p.NodeUnderlay, 0), options)
		if err != nil {
			return err
		}
		if listens {
			if wireGuard.ListenPort, err = plan.FreeUDP(); err != nil {
				return errors.Join(err, node.Close())
			}
		}
		c := p.Config(node.LocalAddr().Port(), wireGuard)
		if dial != nil {
			c.Overlay.Nodes, c.Proxy.Prefixes = nil, []netip.Prefix{plan.PodCIDRs[plan.V4]}
		}
		if err := c.Validate(); err != nil {
			return errors.Join(err, node.Close())
		}
		d, err := daemon.Start(c, daemon.Options{Log: slog.New(slog.DiscardHandler), Dial: dial})
		if err != nil {
			return fmt.Errorf("start gateway %s: %w", p.Name, errors.Join(err, node.Close()))
		}
		s = &side{p, node, d, wireGuard.ListenPort}
		return nil
	})
	return s, err
}

func (s *side) overlay() netip.AddrPort {
	return netip.AddrPortFrom(s.GatewayUnderlay, s.node.LocalAddr().Port())
}

// frame returns a frame of this side's node, from one of its pods to the other cluster.
func (s *side) frame(f flow, size int) []byte {
	return frame(s.VNI, nodeInternal, gatewayInternal, f.packet(size))
}

// head returns the headers of a frame of this side's node.
func (s *side) head() []byte { return frame(s.VNI, nodeInternal, gatewayInternal, nil) }

func (s *side) linked() bool { return s.Fabric().Status()[0].Up }

func (s *side) close() error { return errors.Join(s.Close(), s.node.Close()) }
