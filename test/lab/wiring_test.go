//go:build lab || nightly

package lab

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
)

// The functions of this file create the links of the topology, from the pod towards the
// tunnel.

func (s *site) makeNamespaces(t *testing.T) {
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
	role := strings.ToUpper(s.name)
	s.pod = newNamespace(t, "pod"+role, host)
	s.node = newNamespace(t, "node"+role, router)
	s.gw = newNamespace(t, "gw"+role, host)
}

// joinPod creates the pod's only link, like a point-to-point CNI: the node is the gateway
// of a /32.
func (s *site) joinPod(t *testing.T) {
	t.Helper()
	connect(t, s.pod, "eth0", s.node, "pod")
	s.node.ip(t, fmt.Sprintf(`
addr add %[1]s/32 dev pod
addr add %[2]s/128 dev pod nodad
`, s.bridge4, s.bridge6))
	s.addPodAddress(t, s.pod4)
	s.addPodAddress(t, s.pod6)
	s.pod.ip(t, fmt.Sprintf(`
route add %[1]s dev eth0 src %[2]s
route add default via %[1]s dev eth0 src %[2]s
route add %[3]s dev eth0 src %[4]s
route add default via %[3]s dev eth0 src %[4]s
`, s.bridge4, s.pod4, s.bridge6, s.pod6))
}

// addPodAddress adds an address to the pod and a route to it on the node.
func (s *site) addPodAddress(t *testing.T, a netip.Addr) {
	t.Helper()
	host := netip.PrefixFrom(a, a.BitLen())
	s.pod.ip(t, fmt.Sprintf("addr add %s dev eth0 nodad", host))
	s.node.ip(t, fmt.Sprintf("route add %s dev pod", host))
}

// joinGateway creates the underlay between node and gateway.
func (s *site) joinGateway(t *testing.T, sameMachine bool) {
	t.Helper()
	connect(t, s.node, "gw0", s.gw, "eth0")
	s.node.ip(t, fmt.Sprintf(`
addr add %[1]s/32 dev gw0
addr add %[2]s/128 dev gw0 nodad
route add %[3]s dev gw0 src %[1]s
route add %[4]s dev gw0 src %[2]s
`, s.bridge4, s.bridge6, s.gw4, s.gw6))
	s.gw.ip(t, fmt.Sprintf(`
addr add %[3]s/32 dev eth0
addr add %[4]s/128 dev eth0 nodad
route add %[1]s dev eth0 src %[3]s
route add %[2]s dev eth0 src %[4]s
`, s.bridge4, s.bridge6, s.gw4, s.gw6))
	if !sameMachine {
		likeAWire(t, s.node, "gw0")
		likeAWire(t, s.gw, "eth0")
	}
}

// joinWAN creates the network between the gateways.
func (top *topology) joinWAN(t *testing.T) {
	t.Helper()
	connect(t, top.a.gw, "wan", top.b.gw, "wan")
	for _, s := range []*site{top.a, top.b} {
		s.gw.ip(t, fmt.Sprintf("addr add %s/24 dev wan\naddr add %s/64 dev wan nodad", s.wan4, s.wan6))
		likeAWire(t, s.gw, "wan")
	}
}

// joinOverlay creates the node's tunnel device towards the gateway and routes the other
// site's prefixes through it, as the node helper does in a cluster.
func (s *site) joinOverlay(t *testing.T) {
	t.Helper()
	local := s.bridge4
	if s.underlay.Is6() {
		local = s.bridge6
	}
	tunnelDevice(t, s.node, s.encapsulation, local, s.underlay, overlayMAC(nodeInternal[0]))
	s.node.ip(t, fmt.Sprintf(`
addr add %s/16 dev strait0
addr add %s/48 dev strait0 nodad
neigh replace %s lladdr %s nud permanent dev strait0
neigh replace %s lladdr %[4]s nud permanent dev strait0
`, nodeInternal[0], nodeInternal[1], gatewayInternal[0], overlayMAC(gatewayInternal[0]), gatewayInternal[1]))
	for _, r := range s.remote {
		f := family(r.SeenAs.Addr())
		s.node.ip(t, fmt.Sprintf("route add %s via %s dev strait0 src %s", r.SeenAs, gatewayInternal[f], nodeInternal[f]))
	}
}

// tunnelDevice creates strait0, a unicast kernel tunnel device with VNI 101 between two
// underlay addresses.
func tunnelDevice(t *testing.T, ns *namespace, encapsulation string, local, remote netip.Addr, mac string) {
	t.Helper()
	overhead := 50 // outer IPv4, UDP, Geneve or VXLAN, inner Ethernet
	if remote.Is6() {
		overhead = 70
	}
	device := fmt.Sprintf("geneve id %d remote %s dstport %d", vni, remote, overlayPort[encapsulation])
	if encapsulation == "vxlan" {
		device = fmt.Sprintf("vxlan id %d local %s remote %s dstport %d nolearning", vni, local, remote, overlayPort[encapsulation])
	}
	if remote.Is4() {
		device += " udpcsum" // over IPv6 the kernel always sends checksums
	}
	ns.ip(t, fmt.Sprintf("link add strait0 address %s mtu %d type %s\nlink set strait0 up", mac, 1500-overhead, device))
}

// overlayPort is the gateway's UDP port by encapsulation.
var overlayPort = map[string]uint16{"geneve": 6091, "vxlan": 6092}

// overlayMAC derives the inner MAC address from an internal IPv4 address.
func overlayMAC(internal netip.Addr) string {
	b := internal.As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// kernelEncapsulation returns Geneve if the kernel supports it, else VXLAN.
func kernelEncapsulation(scratch *namespace) string {
	if kernelHas(scratch, "geneve id 1 remote 192.0.2.1") {
		return "geneve"
	}
	return "vxlan"
}

// kernelHas tests in a namespace whether a link of that type can be created.
func kernelHas(scratch *namespace, linkType string) bool {
	args := append([]string{"link", "add", "probe", "type"}, strings.Fields(linkType)...)
	if exec.Command("ip", append([]string{"-n", scratch.name}, args...)...).Run() != nil {
		return false
	}
	return exec.Command("ip", "-n", scratch.name, "link", "del", "probe").Run() == nil
}

// connect creates a veth link between two namespaces.
func connect(t *testing.T, n *namespace, dev string, peer *namespace, peerDev string) {
	t.Helper()
	n.ip(t, fmt.Sprintf("link add %s type veth peer name %s netns %s\nlink set %[1]s up", dev, peerDev, peer.name))
	peer.ip(t, fmt.Sprintf("link set %s up", peerDev))
}

// likeAWire makes the kernel complete checksums and segment super-packets before they leave
// by dev, as on a physical link.
func likeAWire(t *testing.T, n *namespace, dev string) {
	t.Helper()
	n.run(t, "ethtool", "-K", dev, "tx", "off", "tso", "off", "tx-udp-segmentation", "off", "tx-gso-list", "off",
		"tx-udp_tnl-segmentation", "off", "tx-udp_tnl-csum-segmentation", "off")
}

// overlayAt is the gateway's endpoint for an encapsulation.
func (s *site) overlayAt(encapsulation string) netip.AddrPort {
	return netip.AddrPortFrom(s.gw4, overlayPort[encapsulation])
}
