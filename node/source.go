package node

import (
	"fmt"
	"net/netip"
)

// SourceTo is the address that packets of the node itself to an address come from, by
// its routes. It changes nothing, and may be called while Keep runs, by one goroutine.
func (k *Kernel) SourceTo(to netip.Addr) (netip.Addr, error) {
	routes, err := k.asked.RouteGet(to.AsSlice())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("node: the way to %s: %w", to, err)
	}
	for _, r := range routes {
		if from, ok := netip.AddrFromSlice(r.Src); ok {
			return from.Unmap(), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("node: the kernel has no source address for %s", to)
}
