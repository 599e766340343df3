package lab

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/internal/netns"
)

// The functions of this file create the links of the topology, from the pod towards the
// tunnel.

// MakeNamespaces creates the namespaces of pod, node and gateway.
func (s *Site) MakeNamespaces(t *testing.T) {
	t.Helper()
	// No limit on the kernel's ICMP errors (a traceroute needs them all), no reverse path
	// filter (the overlay is intentionally asymmetric in some scenarios).
	host := map[string]string{
		"ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
		"ipv4/icmp_ratelimit": "0", "ipv6/icmp/ratelimit": "0",
	}
	router := map[string]string{"ipv4/ip_forward": "1", "ipv6/conf/all/forwarding": "1"}
	for key, value := range host {
		router[key] = value
	}
	role := strings.ToUpper(s.Name)
	s.Pod = NewNamespace(t, "pod"+role, host)
	s.Node = NewNamespace(t, "node"+role, router)
	s.GW = NewNamespace(t, "gw"+role, host)
}

// JoinPod creates the pod's only link, like a point-to-point CNI: the node is the gateway
// of a /32.
func (s *Site) JoinPod(t *testing.T) {
	t.Helper()
	Connect(t, s.Pod, "eth0", s.Node, "pod")
	s.Node.IP(t, fmt.Sprintf(`
addr add %[1]s/32 dev pod
addr add %[2]s/128 dev pod nodad
`, s.Bridge4, s.Bridge6))
	s.AddPodAddress(t, s.Pod4)
	s.AddPodAddress(t, s.Pod6)
	s.Pod.IP(t, fmt.Sprintf(`
route add %[1]s dev eth0 src %[2]s
route add default via %[1]s dev eth0 src %[2]s
route add %[3]s dev eth0 src %[4]s
route add default via %[3]s dev eth0 src %[4]s
`, s.Bridge4, s.Pod4, s.Bridge6, s.Pod6))
}

// AddPodAddress adds an address to the pod and a route to it on the node.
func (s *Site) AddPodAddress(t *testing.T, a netip.Addr) {
	t.Helper()
	host := netip.PrefixFrom(a, a.BitLen())
	s.Pod.IP(t, fmt.Sprintf("addr add %s dev eth0 nodad", host))
	s.Node.IP(t, fmt.Sprintf("route add %s dev pod", host))
}

// JoinGateway creates the underlay between node and gateway.
func (s *Site) JoinGateway(t *testing.T, sameMachine bool) {
	t.Helper()
	Connect(t, s.Node, "gw0", s.GW, "eth0")
	s.Node.IP(t, fmt.Sprintf(`
addr add %[1]s/32 dev gw0
addr add %[2]s/128 dev gw0 nodad
route add %[3]s dev gw0 src %[1]s
route add %[4]s dev gw0 src %[2]s
`, s.Bridge4, s.Bridge6, s.GW4, s.GW6))
	s.GW.IP(t, fmt.Sprintf(`
addr add %[3]s/32 dev eth0
addr add %[4]s/128 dev eth0 nodad
route add %[1]s dev eth0 src %[3]s
route add %[2]s dev eth0 src %[4]s
`, s.Bridge4, s.Bridge6, s.GW4, s.GW6))
	if !sameMachine {
		LikeAWire(t, s.Node, "gw0")
		LikeAWire(t, s.GW, "eth0")
	}
}

// joinWAN creates the network between the gateways.
func (top *Topology) joinWAN(t *testing.T) {
	t.Helper()
	Connect(t, top.A.GW, "wan", top.B.GW, "wan")
	for _, s := range []*Site{top.A, top.B} {
		s.GW.IP(t, fmt.Sprintf("addr add %s/24 dev wan\naddr add %s/64 dev wan nodad", s.WAN4, s.wan6))
		LikeAWire(t, s.GW, "wan")
	}
}

// JoinOverlay creates the node's tunnel device towards the gateway and routes the other
// site's prefixes through it, as the node helper does in a cluster.
func (s *Site) JoinOverlay(t *testing.T) {
	t.Helper()
	local := s.Bridge4
	if s.Underlay.Is6() {
		local = s.Bridge6
	}
	TunnelDevice(t, s.Node, s.Encapsulation, local, s.Underlay, netns.TunnelMAC(NodeInternal[0]))
	s.Node.IP(t, fmt.Sprintf(`
addr add %s/16 dev strait0
addr add %s/48 dev strait0 nodad
neigh replace %s lladdr %s nud permanent dev strait0
neigh replace %s lladdr %[4]s nud permanent dev strait0
`, NodeInternal[0], NodeInternal[1], GatewayInternal[0], netns.TunnelMAC(GatewayInternal[0]), GatewayInternal[1]))
	for _, r := range s.Remote {
		f := Family(r.SeenAs.Addr())
		s.Node.IP(t, fmt.Sprintf("route add %s via %s dev strait0 src %s", r.SeenAs, GatewayInternal[f], NodeInternal[f]))
	}
}

// TunnelDevice creates strait0, a unicast kernel tunnel device with VNI 101 between two
// underlay addresses.
func TunnelDevice(t *testing.T, ns *Namespace, encapsulation string, local, remote netip.Addr, mac string) {
	t.Helper()
	ns.IP(t, netns.Tunnel(encapsulation, "strait0", VNI, local, remote, mac))
}

// Connect creates a veth link between two namespaces.
func Connect(t *testing.T, n *Namespace, dev string, peer *Namespace, peerDev string) {
	t.Helper()
	n.IP(t, fmt.Sprintf("link add %s type veth peer name %s netns %s\nlink set %[1]s up", dev, peerDev, peer.Name))
	peer.IP(t, fmt.Sprintf("link set %s up", peerDev))
}

// LikeAWire makes the kernel complete checksums and segment super-packets before they leave
// by dev, as on a physical link.
func LikeAWire(t *testing.T, n *Namespace, dev string) {
	t.Helper()
	n.Run(t, "ethtool", "-K", dev, "tx", "off", "tso", "off", "tx-udp-segmentation", "off", "tx-gso-list", "off",
		"tx-udp_tnl-segmentation", "off", "tx-udp_tnl-csum-segmentation", "off")
}

// OverlayAt is the gateway's endpoint for an encapsulation.
func (s *Site) OverlayAt(encapsulation string) netip.AddrPort {
	return netip.AddrPortFrom(s.GW4, netns.TunnelPorts[encapsulation])
}
