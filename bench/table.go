package bench

import (
	"fmt"
	"net/netip"
	"sync"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// innerMTU is what all gateways here carry, bytes of IP packet: what a network of
// 1500 bytes leaves behind WireGuard over IPv6.
const innerMTU = 1420

// The plan of a big cluster: node i has underlay address 192.168.0.0 + i, route i
// is a prefix of 16 pods at 10.0.0.0 + 16 i behind node i modulo nodes.
var (
	bigUnderlay  = netip.MustParseAddr("192.168.0.0")
	bigInternal  = netip.MustParseAddr("10.200.0.0")
	bigGateway   = netip.MustParseAddr("10.80.0.1")
	bigPods      = netip.MustParseAddr("10.0.0.0")
	bigRemote    = netip.MustParseAddr("172.16.0.0") // as it is
	bigRemoteHas = netip.MustParseAddr("172.17.0.0") // as this cluster sees it
)

const routeBits = 28

// cluster is a table with many nodes and routes, and who is behind them.
type cluster struct {
	nodes, routes int
	gateway       *gateway.Gateway
}

// pod is one pod of route i, and its node.
func (c *cluster) pod(i int) (pod netip.Addr, node int) {
	i %= c.routes
	return offset(bigPods, i<<(32-routeBits)|1), i % c.nodes
}

// clusterOf returns a cluster of that size, made once in the life of the process.
func clusterOf(nodes, routes int) func() (*cluster, error) {
	return sync.OnceValues(func() (*cluster, error) {
		c := &config.Gateway{
			Overlay: config.Overlay{Addresses: []netip.Addr{bigGateway}},
			Local:   config.Local{Prefixes: []netip.Prefix{netip.PrefixFrom(bigPods, 9)}},
			Remote: config.Remote{Prefixes: []config.RemotePrefix{
				{CIDR: netip.PrefixFrom(bigRemote, 16), SeenAs: netip.PrefixFrom(bigRemoteHas, 16)},
			}},
		}
		for i := range nodes {
			c.Overlay.Nodes = append(c.Overlay.Nodes, config.Node{
				Name: fmt.Sprintf("node-%d", i), Underlay: offset(bigUnderlay, i), VNI: uint32(i + 1),
				Addresses: []netip.Addr{offset(bigInternal, i)},
			})
		}
		for i := range routes {
			n := &c.Overlay.Nodes[i%nodes]
			n.Prefixes = append(n.Prefixes, netip.PrefixFrom(offset(bigPods, i<<(32-routeBits)), routeBits))
		}
		g, err := gatewayOf(c)
		return &cluster{nodes, routes, g}, err
	})
}

// small is a cluster of one node.
var small = clusterOf(1, 1)

// far is the gateway at the other end of the tunnel: all of its pods are behind
// one node.
var far = sync.OnceValues(func() (*gateway.Gateway, error) {
	pods := netip.PrefixFrom(bigRemote, 16)
	return gatewayOf(&config.Gateway{
		Overlay: config.Overlay{
			Addresses: []netip.Addr{bigGateway},
			Nodes: []config.Node{{
				Name: "node", Underlay: bigUnderlay, VNI: 1, Addresses: []netip.Addr{bigInternal}, Prefixes: []netip.Prefix{pods},
			}},
		},
		Local: config.Local{Prefixes: []netip.Prefix{pods}},
		Remote: config.Remote{Prefixes: []config.RemotePrefix{
			{CIDR: netip.PrefixFrom(bigPods, 9), SeenAs: netip.PrefixFrom(offset(bigPods, 1<<24), 9)},
		}},
	})
})

func gatewayOf(c *config.Gateway) (*gateway.Gateway, error) {
	t, err := gateway.NewTable(c, gateway.MTUs{Overlay: innerMTU, Tunnel: innerMTU}, nil)
	if err != nil {
		return nil, err
	}
	return gateway.New(t), nil
}
