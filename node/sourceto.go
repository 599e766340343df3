package node

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Addresses returns the addresses of all devices of the node, sorted, except loopback and
// link-local ones. It changes nothing; the goroutine that calls SourceTo may call it.
func (k *Kernel) Addresses() (all []netip.Addr, err error) {
	listed, err := k.asked.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("node: list the addresses of the node: %w", err)
	}
	for _, l := range listed {
		if a := addressOf(l.IP); ordinary(a) {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), nil
}

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
