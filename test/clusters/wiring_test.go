//go:build apiserver || lab || nightly

package clusters

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"strait.dev/strait/test/netns"
)

// The links. Nodes reach all nodes, including those of the other cluster; pods of one
// cluster reach each other and the nodes; the other cluster's pods have the same addresses
// and are unreachable.
//
//	              wan (router)
//	192.0.2.0/24 │            │ 198.51.100.0/24
//	   ┌─────────┴───┐     ┌──┴──────────┐
//	 a/node-1   a/node-2  b/node-1   b/node-2      .21 and .22
//	  │    │       │       │    │       │
//	 pod  gw       pod    pod  gw      pod         10.0.1.5, gateways 10.0.1.9, 10.0.2.5
//
// Pods have IPv6 addresses as well, in fd00:10:0:1::/64 and fd00:10:0:2::/64; nodes have
// IPv6 only among themselves, so that the overlay is IPv4.
//
// Nodes masquerade packets from pods to destinations that are not pods, like most CNIs.

// wan is the network between the clusters.
type wan struct{ *netns.Namespace }

func newWAN(t *testing.T) *wan {
	t.Helper()
	w := &wan{netns.New(t)}
	w.Run(t, "sysctl", "-qw", "net.ipv4.ip_forward=1")
	return w
}

// lan creates the network of a cluster's nodes, with the wan as its router.
func (w *wan) lan(t *testing.T, name, router string) {
	t.Helper()
	w.IP(t, fmt.Sprintf(`link add name %[1]s type bridge
addr add %[2]s/24 dev %[1]s
link set dev %[1]s up`, "lan-"+name, router))
}

// box is a node: its host's network, with a bridge for pods.
type box struct {
	*netns.Namespace
	address string // of the node
	podNet  string // like 10.0.1, the first three bytes
	port    string // its link in the namespace of the wan
}

// attach creates a node in a lan. The other nodes' pods are routed through them.
func (w *wan) attach(t *testing.T, lan, router, address, podNet string, others map[string]string) *box {
	t.Helper()
	b := &box{netns.New(t), address, podNet, "p" + address[len(address)-2:] + lan}
	b.Run(t, "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.default.rp_filter=1", "net.ipv6.conf.all.forwarding=1")
	w.IP(t, fmt.Sprintf("link add name %s type veth peer name eth0 %s", b.port, b.Here()))
	w.IP(t, fmt.Sprintf("link set dev %s master lan-%s up", b.port, lan))
	b.IP(t, fmt.Sprintf(`addr add %s/24 dev eth0
link set eth0 up
route add default via %s
link add name cni0 type bridge
addr add %s.1/24 dev cni0
addr add %s::1/64 dev cni0 nodad
link set cni0 up`, address, router, podNet, podNet6(podNet)))
	for net, via := range others {
		b.IP(t, fmt.Sprintf("route add %s.0/24 via %s", net, via))
	}
	b.NFT(t, `table ip cni {
	chain postrouting {
		type nat hook postrouting priority srcnat
		ip saddr 10.0.0.0/16 ip daddr != 10.0.0.0/16 masquerade
	}
}`)
	return b
}

// podNet6 is the IPv6 prefix of a node's pods, without its last part.
func podNet6(podNet string) string { return "fd00:10:0:" + podNet[strings.LastIndex(podNet, ".")+1:] }

// pod creates a pod's network on a node.
func (b *box) pod(t *testing.T, host string) *netns.Namespace {
	t.Helper()
	p := netns.New(t)
	port := "pod" + host
	b.IP(t, fmt.Sprintf("link add name %s type veth peer name eth0 %s", port, p.Here()))
	b.IP(t, fmt.Sprintf("link set dev %s master cni0 up", port))
	p.IP(t, fmt.Sprintf(`addr add %[1]s.%[2]s/24 dev eth0
link set eth0 up
route add default via %[1]s.1
addr add %[3]s::%[2]s/64 dev eth0 nodad
route add default via %[3]s::1`, b.podNet, host, podNet6(b.podNet)))
	return p
}

// nodePort does kube-proxy's work for a gateway's Service: packets to a UDP port of the
// node are translated to its pod, from any source, and replies are translated back.
func (b *box) nodePort(t *testing.T, port int32, pod string) {
	t.Helper()
	b.NFT(t, fmt.Sprintf(`table ip proxy%[2]d
delete table ip proxy%[2]d
table ip proxy%[2]d {
	chain prerouting {
		type nat hook prerouting priority dstnat
		ip daddr %[1]s udp dport %[2]d dnat to %[3]s:51840
	}
	chain postrouting {
		type nat hook postrouting priority srcnat
		ct status dnat udp dport 51840 masquerade
	}
}`, b.address, port, pod))
	// A tracked connection would continue to use the previous pod.
	must(t, b.In(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) }))
}
