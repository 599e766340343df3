package nodes

import (
	"fmt"
	"testing"

	"strait.dev/strait/test/netns"
)

// The addresses of a cluster, by its index.
const (
	services  = "10.96.0.0/16"
	firstNode = 101 // the last byte of its address; the control plane has 1
)

func underlay(index, host int) string       { return fmt.Sprintf("172.30.%d.%d", index, host) }
func podCIDR(pods int) string               { return fmt.Sprintf("10.%d.0.0/16", pods) }
func podRange(pods, node int) string        { return fmt.Sprintf("10.%d.%d.0/24", pods, node) }
func nodeAddress(index, n int) string       { return underlay(index, firstNode+n-1) }
func nodeName(cluster string, n int) string { return fmt.Sprintf("%s-node-%d", cluster, n) }

// lan creates the network of a cluster's nodes.
func (l *Lab) lan(t testing.TB, index int) {
	t.Helper()
	l.router.IP(t, fmt.Sprintf(`link add name lan%[1]d type bridge
addr add %[2]s/24 dev lan%[1]d
link set dev lan%[1]d up`, index, underlay(index, 254)))
}

// attach creates the network of a machine in a lan. With Bridge it routes the pods of other
// nodes through those nodes.
func (l *Lab) attach(t testing.TB, o Options, host int) *netns.Namespace {
	t.Helper()
	n := netns.New(t)
	port := fmt.Sprintf("p%d-%d", o.Index, host)
	l.router.IP(t, fmt.Sprintf("link add name %s type veth peer name eth0 %s", port, n.Here()))
	l.router.IP(t, fmt.Sprintf("link set dev %s master lan%d up", port, o.Index))
	n.IP(t, fmt.Sprintf(`addr add %s/24 dev eth0
link set dev eth0 up
route add default via %s`, underlay(o.Index, host), underlay(o.Index, 254)))
	if o.CNI != Bridge {
		return n
	}
	for other := 1; other <= o.Nodes; other++ {
		if via := nodeAddress(o.Index, other); via != underlay(o.Index, host) {
			n.IP(t, fmt.Sprintf("route add %s via %s", podRange(o.Pods, other), via))
		}
	}
	return n
}

// forward makes a machine a node: it forwards for its pods, and with Bridge masquerades
// their packets that leave the cluster's networks.
func forward(t testing.TB, n *netns.Namespace, o Options) {
	t.Helper()
	n.Run(t, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.default.rp_filter=1")
	if o.CNI != Bridge {
		return
	}
	n.NFT(t, fmt.Sprintf(`table ip cni {
	chain postrouting {
		type nat hook postrouting priority srcnat
		oifname eth0 ip saddr %[1]s ip daddr != { %[1]s, %[2]s/24 } masquerade
	}
}`, podCIDR(o.Pods), underlay(o.Index, 0)))
}
