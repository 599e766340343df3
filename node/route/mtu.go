//go:build linux

// Package route reads the routing table of the kernel. It needs no privilege.
package route

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// MTU returns the MTU of the route to an address in bytes, 0 if the route has none, so that the MTU of its interface applies,
// or if there is no route or it cannot be read. Network plugins set one where they encapsulate packets, below the MTU of the
// interface. What the kernel has learned from ICMP errors does not count: an off-path sender can forge those.
func MTU(to netip.Addr) (smallest int) {
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
	if err != nil {
		return 0
	}
	for _, r := range routes {
		if r.MTU != 0 && (smallest == 0 || r.MTU < smallest) {
			smallest = r.MTU
		}
	}
	return smallest
}
