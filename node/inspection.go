package node

import (
	"net/netip"
	"slices"
	"time"
)

// Inspection reports whether Strait can work on a node, and what it left there. It is plain
// data and is exchanged as JSON.
type Inspection struct {
	Kernel string    `json:"kernel"` // release
	Time   time.Time `json:"time"`   // the node's clock

	Geneve bool   `json:"geneve"` // the kernel supports Geneve links
	VXLAN  bool   `json:"vxlan"`
	TUN    bool   `json:"tun"`              // TAP devices work, given /dev/net/tun
	Lacks  string `json:"lacks,omitempty"`  // what is missing and why
	Tables string `json:"tables,omitempty"` // why the kernel rejects Strait's nftables table; empty: it accepts it
	IPv6   bool   `json:"ipv6"`             // supported by the kernel and enabled
	Out    Exit   `json:"out,omitzero"`     // towards other networks
	Out6   Exit   `json:"out6,omitzero"`    // the same for IPv6
	Taken  []Port `json:"taken,omitempty"`  // ports that Strait needs and that are in use

	// Families are the kernel's generic netlink families, like wireguard and ethtool.
	// Families of modules that are not loaded are missing.
	Families []string `json:"families,omitempty"`

	// Settings are sysctls by name. Unreadable ones are omitted.
	Settings map[string]int `json:"settings"`

	Ours    Ours     `json:"ours,omitzero"`     // existing configuration of Strait
	Strange []string `json:"strange,omitempty"` // conflicting configuration, as text

	// Preceding are rules of other programs, as text, that the kernel applies before Strait's
	// and that send packets for any destination to another table: packets that they match
	// do not reach Strait's routes. There are at most precedingAtMost.
	Preceding []string `json:"preceding,omitempty"`

	// Destinations are prefixes that other programs route on the node, other than by
	// default routes, the widest first, at most destinationsAtMost. A route of Strait must
	// not overlap them.
	Destinations []Destination `json:"destinations,omitempty"`
}

// WireGuard reports whether the kernel's WireGuard is available.
func (i Inspection) WireGuard() bool { return slices.Contains(i.Families, "wireguard") }

// Destination is a prefix that another program routes on a node.
type Destination struct {
	Prefix netip.Prefix `json:"prefix"`
	Text   string       `json:"text"` // like "route to 10.71.0.0/16 dev wg0 table 254"
}

// Exit is the link by which a node reaches other networks.
type Exit struct {
	Link string `json:"link"`
	MTU  int    `json:"mtu"`
	// Offloads are features of the link by their ethtool names, and whether they are on. It
	// is empty if the kernel does not report them.
	Offloads map[string]bool `json:"offloads,omitempty"`
}

// Port is a port that Strait needs.
type Port struct {
	Number uint16 `json:"number"`
	Why    string `json:"why"` // the kernel's error
}

// Ours is the existing configuration of Strait, as text.
type Ours struct {
	Links    []string `json:"links,omitempty"` // by name
	Nexthops []string `json:"nexthops,omitempty"`
	Routes   []string `json:"routes,omitempty"`
	Rules    []string `json:"rules,omitempty"`
	Table    bool     `json:"table,omitempty"` // of nftables
}

// HealthPort is the TCP port on which node helpers serve health and metrics.
const HealthPort = 6093
