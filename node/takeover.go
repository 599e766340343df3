//go:build linux

package node

import (
	"fmt"
	"net/netip"
	"slices"
)

// Takeover is a desired route that overlaps a destination of another program: a route, or a
// rule for destinations, that the kernel looks up after Strait's.
type Takeover struct {
	Prefix      netip.Prefix // of the desired route
	Destination string       // like "route to 10.71.0.0/16 dev wg0 table 254"

	// Refused is true if the route is not in the kernel. It is false if it already was when
	// the destination appeared: without it, packets of existing connections would leave
	// unencrypted by a route that, for instance, a DHCP server of the node's network sets.
	Refused bool
}

func (t Takeover) String() string {
	if t.Refused {
		return fmt.Sprintf("%s is not routed to gateways, because the node has %s", t.Prefix, t.Destination)
	}
	return fmt.Sprintf("%s is routed to gateways and takes over %s, which appeared later", t.Prefix, t.Destination)
}

// takeovers returns the takeovers of d, by prefix.
func takeovers(d Desired, observed State) (all []Takeover) {
	for _, r := range d.Routes {
		if destination, overlaps := observed.Destinations[r.Prefix]; overlaps {
			held := slices.ContainsFunc(observed.Routes, func(k KernelRoute) bool { return k.Prefix == r.Prefix })
			all = append(all, Takeover{r.Prefix, destination, !held})
		}
	}
	slices.SortFunc(all, func(a, b Takeover) int { return a.Prefix.Compare(b.Prefix) })
	return all
}

// withoutRefused returns d without refused routes: not even a blackhole takes their place.
func (d Desired) withoutRefused(observed State) Desired {
	refused := map[netip.Prefix]bool{}
	for _, t := range takeovers(d, observed) {
		refused[t.Prefix] = t.Refused
	}
	if len(refused) > 0 {
		d.Routes = slices.DeleteFunc(slices.Clone(d.Routes), func(r Route) bool { return refused[r.Prefix] })
	}
	return d
}
