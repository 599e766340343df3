package rig

import (
	"errors"
	"fmt"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/internal/plan"
)

// overlayName is the name of the tunnel device, on nodes and on kernel gateways.
const overlayName = "ov"

// joinNode creates the node's tunnel device and configures it as the node helper does in a
// cluster; with v6 the tunnel runs over IPv6.
func (s *site) joinNode(encapsulation string, v6 bool) error {
	f := 0
	if v6 {
		f = 1
	}
	return s.node.IP(netns.Tunnel(encapsulation, overlayName, vni, s.nodeUnderlay[f], s.gwUnderlay[f], netns.TunnelMAC(nodeInternal[0])) +
		addressLines(overlayName, nodeInternal) +
		neighbourLines(overlayName, gwInternal))
}

// joinKernelGateway creates the other end in the gateway's namespace, for gateways that
// consist of kernel devices, and routes the pods' packets to it.
func (s *site) joinKernelGateway(encapsulation string) error {
	lines := netns.Tunnel(encapsulation, overlayName, vni, s.gwUnderlay[0], s.nodeUnderlay[0], netns.TunnelMAC(gwInternal[0])) +
		addressLines(overlayName, gwInternal) +
		neighbourLines(overlayName, nodeInternal)
	return s.gw.IP(lines)
}

// neighbourLines returns commands that make ARP unnecessary.
func neighbourLines(device string, p plan.Addresses) string {
	return fmt.Sprintf("neigh replace %s lladdr %s nud permanent dev %s\nneigh replace %s lladdr %[2]s nud permanent dev %[3]s\n",
		p[0], netns.TunnelMAC(p[0]), device, p[1])
}

// routeNode routes prefixes of the other cluster to the node's tunnel device.
func (s *site) routeNode(to plan.Prefixes) error {
	var failed []error
	for f, prefix := range to {
		failed = append(failed, s.node.IP(fmt.Sprintf("route add %s via %s dev %s", prefix, gwInternal[f], overlayName)))
	}
	return errors.Join(failed...)
}
