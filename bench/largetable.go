package bench

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/plan"
)

// Addresses of a large cluster: node i has underlay address 192.168.0.0 + i.
var (
	bigUnderlay = netip.MustParseAddr("192.168.0.0")
	bigInternal = netip.MustParseAddr("10.200.0.0")
	bigGateway  = netip.MustParseAddr("10.80.0.1")
)

// ranges are the pod addresses of one family. Route i is a prefix of podsEach pods starting
// at the (podsEach i)th address, behind node i modulo nodes.
type ranges struct {
	pods       netip.Prefix
	remote     netip.Prefix // real addresses
	remoteSeen netip.Prefix // as this cluster maps them
}

var (
	ranges4 = ranges{netip.MustParsePrefix("10.0.0.0/9"), netip.MustParsePrefix("172.16.0.0/16"), netip.MustParsePrefix("172.17.0.0/16")}
	ranges6 = ranges{netip.MustParsePrefix("fd00:10::/64"), netip.MustParsePrefix("fd00:16::/64"), netip.MustParsePrefix("fd00:17::/64")}
)

const (
	podsBits = 4
	podsEach = 1 << podsBits
)

// route returns the prefix of route i.
func (r *ranges) route(i int) netip.Prefix {
	first := offset(r.pods.Addr(), i*podsEach)
	return netip.PrefixFrom(first, first.BitLen()-podsBits)
}

// cluster is a table with many nodes and routes, and the pods behind them.
type cluster struct {
	ranges
	nodes, routes int
	gateway       *gateway.Gateway
}

// pod returns a pod of route i, and its node.
func (c *cluster) pod(i int) (pod netip.Addr, node int) {
	i %= c.routes
	return c.route(i).Addr().Next(), i % c.nodes
}

// clusterOf returns a cluster of that size, created once per process.
func (r ranges) clusterOf(nodes, routes int) func() *cluster {
	return sync.OnceValue(func() *cluster {
		c := &config.Gateway{
			Overlay: config.Overlay{Addresses: []netip.Addr{bigGateway}},
			Local:   config.Local{Prefixes: []netip.Prefix{r.pods}},
			Remote:  config.Remote{Prefixes: []config.RemotePrefix{{CIDR: r.remote, SeenAs: r.remoteSeen}}},
		}
		for i := range nodes {
			c.Overlay.Nodes = append(c.Overlay.Nodes, config.Node{
				Name: fmt.Sprintf("node-%d", i), Underlay: offset(bigUnderlay, i), VNI: uint32(i + 1),
				Addresses: []netip.Addr{offset(bigInternal, i)},
			})
		}
		for i := range routes {
			n := &c.Overlay.Nodes[i%nodes]
			n.Prefixes = append(n.Prefixes, r.route(i))
		}
		return &cluster{r, nodes, routes, gatewayOf(c)}
	})
}

// small and small6 are clusters of one node.
var small, small6 = ranges4.clusterOf(1, 1), ranges6.clusterOf(1, 1)

// far is the gateway at the other end of the tunnel: all of its pods are behind one node.
var far = sync.OnceValue(func() *gateway.Gateway {
	pods, others := ranges4.remote, ranges4.pods
	return gatewayOf(&config.Gateway{
		Overlay: config.Overlay{
			Addresses: []netip.Addr{bigGateway},
			Nodes: []config.Node{{
				Name: "node", Underlay: bigUnderlay, VNI: 1, Addresses: []netip.Addr{bigInternal}, Prefixes: []netip.Prefix{pods},
			}},
		},
		Local: config.Local{Prefixes: []netip.Prefix{pods}},
		Remote: config.Remote{Prefixes: []config.RemotePrefix{
			{CIDR: others, SeenAs: netip.PrefixFrom(offset(others.Addr(), 1<<24), others.Bits())},
		}},
	})
})

func gatewayOf(c *config.Gateway) *gateway.Gateway {
	t, err := gateway.NewTable(c, gateway.MTUs{Overlay: plan.InnerMTU, Tunnel: plan.InnerMTU}, nil)
	if err != nil {
		panic(err) // the configurations of this file are valid
	}
	return gateway.New(t, rand.NewPCG(1, 2))
}
