package nodes

import (
	"fmt"
	"strings"
	"testing"

	"strait.dev/strait/test/netns"
)

// family has the addresses of an IP family.
type family struct {
	name       string // in rules of nft
	forwarding string // a sysctl
	everywhere string
	services   string // the CIDR in every cluster
	api, dns   string // the addresses of the Services kubernetes and kube-dns
	flags      string // of addresses of nodes
	bits       int    // of the prefix of a network of nodes
	// Formats: of the indexes of a cluster and a host, of Options.Pods, of Options.Pods and
	// the number of a node.
	host, pods, podsOfNode string
}

var (
	ipv4 = family{
		name: "ip", forwarding: "net.ipv4.ip_forward", everywhere: "0.0.0.0/0", services: "10.96.0.0/16", bits: 24,
		api: "10.96.0.1", dns: "10.96.0.10",
		host: "172.30.%d.%d", pods: "10.%d.0.0/16", podsOfNode: "10.%d.%d.0/24",
	}
	ipv6 = family{
		name: "ip6", forwarding: "net.ipv6.conf.all.forwarding", everywhere: "::/0", services: "fd96::/112", bits: 64,
		api: "fd96::1", dns: "fd96::10", flags: "nodad", // without it no program can bind to an address in its first second
		host: "fd30:0:0:%d::%d", pods: "fd10:0:%d::/48", podsOfNode: "fd10:0:%d:%d::/64",
	}
)

// Families are the IP families of a cluster.
type Families string

// The families that clusters may have.
const (
	IPv4      Families = ""
	IPv6      Families = "IPv6"
	DualStack Families = "IPv4, IPv6" // IPv4 is the first family
	IPv6First Families = "IPv6, IPv4"
)

// all returns the families, the first one of the cluster first.
func (f Families) all() []family {
	switch f {
	case IPv6:
		return []family{ipv6}
	case DualStack:
		return []family{ipv4, ipv6}
	case IPv6First:
		return []family{ipv6, ipv4}
	}
	return []family{ipv4}
}

// list returns a value for each family, separated by commas.
func list(families []family, value func(family) string) string {
	all := make([]string, len(families))
	for i, f := range families {
		all[i] = value(f)
	}
	return strings.Join(all, ",")
}

const firstNode = 101 // its index as a host; the control plane has 1

func (f family) underlay(index, host int) string { return fmt.Sprintf(f.host, index, host) }
func (f family) node(index, n int) string        { return f.underlay(index, firstNode+n-1) }
func (f family) podCIDR(pods int) string         { return fmt.Sprintf(f.pods, pods) }
func (f family) podRange(pods, n int) string     { return fmt.Sprintf(f.podsOfNode, pods, n) }

// withPrefix returns the address of a host, with the length of its network's prefix.
func (f family) withPrefix(index, host int) string {
	return fmt.Sprintf("%s/%d", f.underlay(index, host), f.bits)
}

func nodeName(cluster string, n int) string { return fmt.Sprintf("%s-node-%d", cluster, n) }

// lan creates the network of a cluster's nodes.
func (l *Lab) lan(t testing.TB, o Options) {
	t.Helper()
	l.router.IP(t, fmt.Sprintf("link add name lan%[1]d type bridge\nlink set dev lan%[1]d up", o.Index))
	for _, f := range o.Families.all() {
		l.router.IP(t, fmt.Sprintf("addr add %s dev lan%d %s", f.withPrefix(o.Index, 254), o.Index, f.flags))
	}
}

// attach creates the network of a machine in a lan. With Bridge it routes the pods of other
// nodes through those nodes.
func (l *Lab) attach(t testing.TB, o Options, host int) *netns.Namespace {
	t.Helper()
	n := netns.New(t)
	port := fmt.Sprintf("p%d-%d", o.Index, host)
	l.router.IP(t, fmt.Sprintf("link add name %s type veth peer name eth0 %s", port, n.Here()))
	l.router.IP(t, fmt.Sprintf("link set dev %s master lan%d up", port, o.Index))
	n.IP(t, "link set dev eth0 up")
	for _, f := range o.Families.all() {
		n.IP(t, fmt.Sprintf("addr add %s dev eth0 %s\nroute add %s via %s", f.withPrefix(o.Index, host), f.flags, f.everywhere, f.underlay(o.Index, 254)))
		for other := 1; o.CNI == Bridge && other <= o.Nodes; other++ {
			if via := f.node(o.Index, other); via != f.underlay(o.Index, host) {
				n.IP(t, fmt.Sprintf("route add %s via %s", f.podRange(o.Pods, other), via))
			}
		}
	}
	return n
}

// forward makes a machine a node: it forwards for its pods, and with Bridge masquerades
// their packets that leave the cluster's networks.
func forward(t testing.TB, n *netns.Namespace, o Options) {
	t.Helper()
	n.Run(t, "sysctl", "-qw", "net.ipv4.conf.all.rp_filter=1", "net.ipv4.conf.default.rp_filter=1")
	for _, f := range o.Families.all() {
		n.Run(t, "sysctl", "-qw", f.forwarding+"=1")
		if o.CNI != Bridge {
			continue
		}
		n.NFT(t, fmt.Sprintf(`table %[1]s cni {
	chain postrouting {
		type nat hook postrouting priority srcnat
		oifname eth0 %[1]s saddr %[2]s %[1]s daddr != { %[2]s, %[3]s } masquerade
	}
}`, f.name, f.podCIDR(o.Pods), f.withPrefix(o.Index, 0)))
	}
}
