package rig

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Kernel tunnel devices between node and gateway: Geneve if the kernel supports it,
// otherwise VXLAN, whose headers are equally long.

// overlayPorts are the gateway's UDP ports by encapsulation.
var overlayPorts = map[string]uint16{"geneve": 6091, "vxlan": 6092}

// overlayName is the name of the tunnel device, on nodes and on kernel gateways.
const overlayName = "ov"

// kernelEncapsulation tests in a namespace which encapsulation this kernel supports.
func kernelEncapsulation(scratch *namespace) string {
	if kernelHas(scratch, "geneve", "id", "1", "remote", "192.0.2.1") {
		return "geneve"
	}
	return "vxlan"
}

// kernelHas tests whether a device of a type can be created.
func kernelHas(scratch *namespace, linkType ...string) bool {
	return scratch.IP("link add probe type "+strings.Join(linkType, " ")+"\nlink del probe") == nil
}

// overlayMAC derives the inner MAC address from an internal IPv4 address.
func overlayMAC(internal netip.Addr) string {
	b := internal.As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}

// overlayDevice returns the command that creates a tunnel device between two underlay
// addresses.
func overlayDevice(encapsulation, name string, id int, local, remote netip.Addr, mac string) string {
	overhead := 50 // outer IPv4, UDP, tunnel header, inner Ethernet
	if remote.Is6() {
		overhead = 70
	}
	kind := fmt.Sprintf("geneve id %d remote %s dstport %d", id, remote, overlayPorts[encapsulation])
	if encapsulation == "vxlan" {
		kind = fmt.Sprintf("vxlan id %d local %s remote %s dstport %d nolearning", id, local, remote, overlayPorts[encapsulation])
	}
	if remote.Is4() {
		kind += " udpcsum" // over IPv6 the kernel always sends checksums
	}
	return fmt.Sprintf("link add %s address %s mtu %d type %s\nlink set %[1]s up\n", name, mac, 1500-overhead, kind)
}

// joinNode creates the node's tunnel device and configures it as the node helper does in a
// cluster; with v6 the tunnel runs over IPv6.
func (s *site) joinNode(encapsulation string, v6 bool) error {
	f := 0
	if v6 {
		f = 1
	}
	return s.node.IP(overlayDevice(encapsulation, overlayName, vni, s.nodeUnderlay[f], s.gwUnderlay[f], overlayMAC(nodeInternal[0])) +
		addressLines(overlayName, nodeInternal) +
		neighbourLines(overlayName, gwInternal))
}

// joinKernelGateway creates the other end in the gateway's namespace, for gateways that
// consist of kernel devices, and routes the pods' packets to it.
func (s *site) joinKernelGateway(encapsulation string) error {
	lines := overlayDevice(encapsulation, overlayName, vni, s.gwUnderlay[0], s.nodeUnderlay[0], overlayMAC(gwInternal[0])) +
		addressLines(overlayName, gwInternal) +
		neighbourLines(overlayName, nodeInternal)
	return s.gw.IP(lines)
}

// neighbourLines returns commands that make ARP unnecessary: MAC addresses are derived from
// IP addresses.
func neighbourLines(device string, p pair) string {
	return fmt.Sprintf("neigh replace %s lladdr %s nud permanent dev %s\nneigh replace %s lladdr %[2]s nud permanent dev %[3]s\n",
		p[0], overlayMAC(p[0]), device, p[1])
}

// routeNode routes prefixes of the other cluster to the node's tunnel device.
func (s *site) routeNode(to pair4and6) error {
	var failed []error
	for f, prefix := range to {
		failed = append(failed, s.node.IP(fmt.Sprintf("route add %s via %s dev %s", prefix, gwInternal[f], overlayName)))
	}
	return errors.Join(failed...)
}
