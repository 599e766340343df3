//go:build linux

package netns

import (
	"fmt"
	"net/netip"
)

// The kernel's tunnel devices between nodes and gateways: Geneve if the kernel supports it,
// otherwise VXLAN, whose headers are equally long.

// TunnelPorts are the gateways' UDP ports by encapsulation.
var TunnelPorts = map[string]uint16{"geneve": 6091, "vxlan": 6092}

// Encapsulation returns geneve if the kernel supports it, else vxlan.
func (n *Namespace) Encapsulation() string {
	if n.Supports("geneve id 1 remote 192.0.2.1") {
		return "geneve"
	}
	return "vxlan"
}

// Supports reports whether a device of a type can be created.
func (n *Namespace) Supports(linkType string) bool {
	return n.IP("link add probe type "+linkType+"\nlink del probe") == nil
}

// Tunnel returns the `ip` commands that create a tunnel device with a VNI between two underlay
// addresses.
func Tunnel(encapsulation, name string, vni int, local, remote netip.Addr, mac string) string {
	overhead := 50 // outer IPv4, UDP, Geneve or VXLAN, inner Ethernet
	if remote.Is6() {
		overhead = 70
	}
	kind := fmt.Sprintf("geneve id %d remote %s dstport %d", vni, remote, TunnelPorts[encapsulation])
	if encapsulation == "vxlan" {
		kind = fmt.Sprintf("vxlan id %d local %s remote %s dstport %d nolearning", vni, local, remote, TunnelPorts[encapsulation])
	}
	if remote.Is4() {
		kind += " udpcsum" // over IPv6 the kernel always sends checksums
	}
	return fmt.Sprintf("link add %s address %s mtu %d type %s\nlink set %[1]s up\n", name, mac, 1500-overhead, kind)
}

// TunnelMAC derives the MAC address inside of tunnels from an internal IPv4 address.
func TunnelMAC(internal netip.Addr) string {
	b := internal.As4()
	return fmt.Sprintf("0a:58:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3])
}
