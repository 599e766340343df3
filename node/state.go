//go:build linux

package node

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// State is what belongs to Strait in a kernel, and what its routes must not take over.
type State struct {
	Links  []Link        // by name
	Routes []KernelRoute // by prefix and metric

	// Nexthops and Groups are nexthop objects, by ID. Foreign are the IDs of Strait's range that
	// other programs use. Multipath is true if the kernel has no nexthop objects (before Linux
	// 5.3): then routes have several next hops themselves.
	Nexthops  []Nexthop
	Groups    []NexthopGroup
	Foreign   []uint32
	Multipath bool

	Rules [2]bool // whether there is one for IPv4, for IPv6

	// Table is the fingerprint of the nftables table. It is empty if the table is missing, and
	// matches none if another program changed it.
	Table string

	// Destinations are those of other programs that desired routes overlap, by the prefix of
	// the desired route. See Takeover.
	Destinations map[netip.Prefix]string
}

// Link is a tunnel device, or a TAP device in its place. The kernel does not know the
// destination of a TAP device's frames: VNI, Port and Underlay are those with which this
// process serves it, and zero while it does not.
type Link struct {
	Name          string
	Encapsulation Encapsulation // empty: another type of device
	VNI           uint32
	Port          uint16
	Underlay      netip.Addr // destination of frames; the zero Addr with VXLAN
	MAC           MAC
	MTU           int
	Loose         bool // the reverse path filter is loose
	Up            bool
	Addresses     []netip.Addr // by family
	Neighbours    []Neighbour  // by address
	Forwarding    []Forwarding // with VXLAN, by MAC
}

// Neighbour is a permanent entry of a link's neighbour table.
type Neighbour struct {
	Address netip.Addr
	MAC     MAC
}

// Forwarding is the underlay address to which VXLAN sends frames for a MAC address.
type Forwarding struct {
	MAC      MAC
	Underlay netip.Addr
}

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// macOf returns the inner MAC address of the host with these internal addresses: 0a:58 and
// the four bytes of the IPv4 address, or the last four bytes of the IPv6 address.
func macOf(internal []netip.Addr) MAC {
	a := ipv4.of(internal)
	if !a.IsValid() {
		a = ipv6.of(internal)
	}
	b := a.AsSlice()
	m := MAC{0x0a, 0x58}
	copy(m[2:], b[len(b)-4:])
	return m
}

// KernelRoute is one of Strait's routes, identified by prefix and metric.
type KernelRoute struct {
	Prefix netip.Prefix
	Metric int
	Group  uint32     // of nexthops; 0: none
	Hops   []Hop      // sorted; none without a Group: a blackhole
	Source netip.Addr // of packets from the node itself
	MTU    int
}

func (r KernelRoute) blackhole() bool { return r.Group == 0 && len(r.Hops) == 0 }

func (r KernelRoute) equal(o KernelRoute) bool {
	return r.key() == o.key() && r.Group == o.Group && slices.Equal(r.Hops, o.Hops) && r.Source == o.Source && r.MTU == o.MTU
}

func sortHops(hops []Hop) {
	slices.SortFunc(hops, func(a, b Hop) int { return cmp.Or(a.Via.Compare(b.Via), cmp.Compare(a.Link, b.Link)) })
}

type routeKey struct {
	prefix netip.Prefix
	metric int
}

func (r KernelRoute) key() routeKey { return routeKey{r.Prefix, r.Metric} }

func (r KernelRoute) String() string {
	if r.blackhole() {
		return fmt.Sprintf("blackhole %s metric %d", r.Prefix, r.Metric)
	}
	by := fmt.Sprintf("nexthop %d", r.Group)
	if r.Group == 0 {
		var hops []string
		for _, h := range r.Hops {
			hops = append(hops, h.String())
		}
		by = strings.Join(hops, " and ")
	}
	return fmt.Sprintf("%s %s src %s mtu %d metric %d", r.Prefix, by, r.Source, r.MTU, r.Metric)
}

var linkNames = regexp.MustCompile("^" + LinkPrefix + "[0-9a-v]{5}$")
