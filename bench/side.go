package bench

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"syscall"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
	"strait.dev/strait/internal/freeport"
	"strait.dev/strait/relay"
	"strait.dev/strait/underlay"
)

// Addresses that both clusters use.
var (
	podRange        = netip.MustParsePrefix("10.0.0.0/16")
	podRange6       = netip.MustParsePrefix("fd00:10::/32")
	externalRange   = netip.MustParsePrefix("10.70.0.0/16")
	gatewayInternal = netip.MustParseAddr("10.80.0.1")
	gatewayExternal = netip.MustParseAddr("10.70.0.1")
	nodeInternal    = netip.MustParseAddr("10.80.0.11")
)

// plan holds the values that differ between the clusters. Node and gateway have separate
// loopback addresses, because they use the same port.
type plan struct {
	name          string
	node, gateway netip.Addr
	vni           uint32
	pods          netip.Prefix // behind the node
	pod           netip.Addr
	remotePod     netip.Addr   // the other cluster's pod, as this one maps it
	remotePods    netip.Prefix // the other cluster's podRange, as this one maps it
	remoteHosts   netip.Prefix // the other cluster's externalRange, as this one maps it

	// The same for IPv6.
	pods6       netip.Prefix
	pod6        netip.Addr
	remotePod6  netip.Addr
	remotePods6 netip.Prefix
}

var (
	planA = plan{
		name: "a", vni: 101,
		node: netip.MustParseAddr("127.0.11.11"), gateway: netip.MustParseAddr("127.0.11.1"),
		pods: netip.MustParsePrefix("10.0.1.0/24"), pod: netip.MustParseAddr("10.0.1.5"),
		remoteHosts: netip.MustParsePrefix("10.73.0.0/16"),
		remotePods:  netip.MustParsePrefix("10.71.0.0/16"), remotePod: netip.MustParseAddr("10.71.2.9"),
		pods6: netip.MustParsePrefix("fd00:10:1::/64"), pod6: netip.MustParseAddr("fd00:10:1::5"),
		remotePods6: netip.MustParsePrefix("fd00:71::/32"), remotePod6: netip.MustParseAddr("fd00:71:2::9"),
	}
	planB = plan{
		name: "b", vni: 202,
		node: netip.MustParseAddr("127.0.12.11"), gateway: netip.MustParseAddr("127.0.12.1"),
		pods: netip.MustParsePrefix("10.0.2.0/24"), pod: netip.MustParseAddr("10.0.2.9"),
		remoteHosts: netip.MustParsePrefix("10.74.0.0/16"),
		remotePods:  netip.MustParsePrefix("10.72.0.0/16"), remotePod: netip.MustParseAddr("10.72.1.5"),
		pods6: netip.MustParsePrefix("fd00:10:2::/64"), pod6: netip.MustParseAddr("fd00:10:2::9"),
		remotePods6: netip.MustParsePrefix("fd00:72::/32"), remotePod6: netip.MustParseAddr("fd00:72:1::5"),
	}
)

// conversation returns a flow from the pod of cluster a to that of cluster b, over the
// given IP version.
func conversation(version int, sport uint16) flow {
	if version == 6 {
		return flow{planA.pod6, planA.remotePod6, sport, port}
	}
	return flow{planA.pod, planA.remotePod, sport, port}
}

// side is one cluster: a real gateway, and the socket of its only node.
type side struct {
	plan
	node *underlay.Socket
	*daemon.Daemon
	listens uint16 // the port of WireGuard, 0 if it only connects
}

// portAttempts is how often another process may have taken the port of WireGuard, or the node's
// port at the gateway's address.
const portAttempts = 10

// startSide starts a gateway and a node's socket on the same port number. wireGuard has the
// keys and peers; if listens, peers can connect to it. With offload the node's socket segments and
// coalesces. If dial is not nil, the gateway has no node, and connects to pods by dial.
func startSide(p plan, wireGuard config.WireGuard, listens, offload bool, dial relay.Dialer) (*side, error) {
	options := underlay.Options{DisableGRO: !offload, DisableGSO: !offload}
	for attempt := 1; ; attempt++ {
		node, err := underlay.Listen(netip.AddrPortFrom(p.node, 0), options)
		if err != nil {
			return nil, err
		}
		if listens {
			if wireGuard.ListenPort, err = freeport.UDP(); err != nil {
				return nil, errors.Join(err, node.Close())
			}
		}
		c := p.config(node.LocalAddr().Port(), wireGuard)
		if dial != nil {
			c.Overlay.Nodes, c.Proxy.Prefixes = nil, []netip.Prefix{podRange}
		}
		if err := c.Validate(); err != nil {
			return nil, errors.Join(err, node.Close())
		}
		d, err := daemon.Start(c, daemon.Options{Log: slog.New(slog.DiscardHandler), Dial: dial})
		if err == nil {
			return &side{p, node, d, wireGuard.ListenPort}, nil
		}
		node.Close()
		if attempt == portAttempts || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("start gateway %s: %w", p.name, err)
		}
	}
}

func (p *plan) config(port uint16, wireGuard config.WireGuard) *config.Gateway {
	other := map[string]string{"a": "b", "b": "a"}[p.name]
	return &config.Gateway{
		APIVersion: config.APIVersion, Kind: config.Kind, Cluster: p.name,
		Overlay: config.Overlay{
			Listen:            config.ListenAddress{Addr: p.gateway, Port: port},
			Addresses:         []netip.Addr{gatewayInternal},
			ExternalAddresses: []netip.Addr{gatewayExternal},
			MTU:               innerMTU,
			Nodes: []config.Node{{
				Name: "node-" + p.name, Underlay: p.node, VNI: p.vni,
				Addresses: []netip.Addr{nodeInternal}, Prefixes: []netip.Prefix{p.pods, p.pods6},
			}},
		},
		WireGuard: wireGuard,
		Local:     config.Local{Prefixes: []netip.Prefix{podRange, podRange6}, ExternalPrefixes: []netip.Prefix{externalRange}},
		Remote: config.Remote{Cluster: other, Prefixes: []config.RemotePrefix{
			{CIDR: podRange, SeenAs: p.remotePods},
			{CIDR: podRange6, SeenAs: p.remotePods6},
			{CIDR: externalRange, SeenAs: p.remoteHosts},
		}},
	}
}

func (s *side) overlay() netip.AddrPort {
	return netip.AddrPortFrom(s.gateway, s.node.LocalAddr().Port())
}

// frame returns a frame of this side's node, from one of its pods to the other cluster.
func (s *side) frame(f flow, size int) []byte {
	return frame(s.vni, nodeInternal, gatewayInternal, f.packet(size))
}

// head returns the headers of a frame of this side's node.
func (s *side) head() []byte { return frame(s.vni, nodeInternal, gatewayInternal, nil) }

func (s *side) linked() bool { return s.Fabric().Status()[0].Up }

func (s *side) close() error { return errors.Join(s.Close(), s.node.Close()) }
