//go:build linux

package node

import (
	"fmt"
	"net/netip"
)

// SourceTo returns the source address of packets from the node itself to an address, by its
// routes. It changes nothing, and one goroutine may call it while Keep runs.
func (k *Kernel) SourceTo(to netip.Addr) (netip.Addr, error) {
	routes, err := k.asked.RouteGet(to.AsSlice())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("node: look up the route to %s: %w", to, err)
	}
	for _, r := range routes {
		if from, ok := netip.AddrFromSlice(r.Src); ok {
			return from.Unmap(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("node: the kernel has no source address for %s", to)
}
