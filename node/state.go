package node

import (
	"fmt"
	"net/netip"
	"regexp"
)

// State is what is ours in a kernel.
type State struct {
	Links  []Link        // by name
	Routes []KernelRoute // by prefix and metric
	Rules  [2]bool       // there is one: for IPv4, for IPv6

	// Sources is the fingerprint of the nftables table: that of a Sources, or empty if
	// the table is missing or not as we made it.
	Sources string
}

// Link is a tunnel device, or a TAP device in its place. Where the frames of a TAP device
// go is no matter of the kernel: VNI, Port and Underlay are those that this process serves
// it with, and zero while it does not.
type Link struct {
	Name          string
	Encapsulation Encapsulation // empty: the device is something else
	VNI           uint32
	Port          uint16
	Underlay      netip.Addr // where its frames go; the zero Addr with VXLAN
	MAC           MAC
	MTU           int
	Loose         bool // the reverse path filter is
	Up            bool
	Addresses     []netip.Addr // by family
	Neighbours    []Neighbour  // by address
	Forwarding    []Forwarding // with VXLAN, by MAC
}

// Neighbour is an entry of a link's neighbour table that the kernel never questions.
type Neighbour struct {
	Address netip.Addr
	MAC     MAC
}

// Forwarding says where VXLAN sends the frames to a MAC address.
type Forwarding struct {
	MAC      MAC
	Underlay netip.Addr
}

// MAC is an Ethernet address.
type MAC [6]byte

func (m MAC) String() string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}

// macOf is the inner MAC address of the host with these internal addresses: 0a:58 and
// four bytes of the IPv4 address, or the last four of the IPv6 one.
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

// KernelRoute is a route of ours. Prefix and metric tell it from others.
type KernelRoute struct {
	Prefix netip.Prefix
	Metric int
	Link   string     // empty: a blackhole
	Via    netip.Addr // the zero Addr: directly
	Source netip.Addr // of what the node itself sends
	MTU    int
}

type routeKey struct {
	prefix netip.Prefix
	metric int
}

func (r KernelRoute) key() routeKey { return routeKey{r.Prefix, r.Metric} }

func (r KernelRoute) String() string {
	if r.Link == "" {
		return fmt.Sprintf("blackhole %s metric %d", r.Prefix, r.Metric)
	}
	via := ""
	if r.Via.IsValid() {
		via = fmt.Sprintf(" via %s", r.Via)
	}
	return fmt.Sprintf("%s%s dev %s src %s mtu %d metric %d", r.Prefix, via, r.Link, r.Source, r.MTU, r.Metric)
}

// What marks things as ours; numbers that nothing else is known to use.
const (
	linkPrefix    = "strait-"
	tableName     = "strait" // of nftables
	routeTable    = 6091     // like the port
	routeProtocol = 91
	rulePriority  = 105

	metricOverlay   = 100
	metricBlackhole = 10000
)

var linkNames = regexp.MustCompile("^" + linkPrefix + "[0-9a-f]{8}$")
