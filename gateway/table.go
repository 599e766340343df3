package gateway

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"strait.dev/strait/config"
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// Table is everything that the journeys look up: the nodes, the prefixes behind them, what the
// remote cluster may send and reach, and under which addresses each cluster appears to the
// other.
//
// A Table is safe for concurrent use, and immutable except for what Node states and the number of active nodes. A zero or nil Table is not valid. A Table
// from a configuration without nodes, grants or remote prefixes drops everything.
type Table struct {
	nodes   map[NodeKey]*Node
	sources map[netip.Addr]struct{} // outer addresses of nodes, to distinguish UnknownSource from WrongVNI

	// local: all addresses of this cluster, by longest prefix: pod prefixes, internal and
	// external addresses of nodes, the gateway's own addresses.
	local *bart.Table[*route]
	// granted: what the remote cluster may reach here, and what may reach it from here.
	granted *bart.Fast[struct{}]
	// seen: remote addresses as seen by this cluster -> the real addresses there.
	seen *bart.Fast[*nat.Map]
	// remote: real addresses in the remote cluster -> how this cluster sees them.
	remote *bart.Fast[*nat.Map]
	// masqueraded: additional sources that may leave; they are masqueraded.
	masqueraded *bart.Lite
	// origins: nodes by VNI, which flows store as their origin.
	origins map[uint32]*Node

	mac        packet.MAC
	internal   [2]netip.Addr           // the gateway's internal address, IPv4 and IPv6; invalid = none
	external   [2]netip.Addr           // the gateway's external address
	addresses  []netip.Addr            // all of the gateway's own
	outside    []netip.Addr            // all external addresses of the gateway
	overlayMTU int                     // largest inner packet that a node leg carries
	tunnelMTU  int                     // largest inner packet that the whole path carries
	localMTU   int                     // largest inner packet that the gateway's own interfaces carry
	tunnelFrom map[netip.Addr]struct{} // source addresses of the gateway's own tunnel
	tunnelPort uint16                  // and its port; 0 = any
	mss        [2]uint16               // MSS clamp for IPv4 and IPv6; 0 = off
}

// route is the target of a local prefix.
type route struct {
	node       *Node    // nil: the gateway's own host
	external   *nat.Map // a node's internal address: its external address (egress source)
	internal   *nat.Map // a node's external address: its internal address (ingress destination)
	inside     bool     // an internal address: not reachable for the remote cluster
	mapped     bool     // stands for a target outside of the pod network
	proxied    bool     // pods that the host reaches for the remote cluster; nodes reach them without it
	orphan     bool     // an internal address without an external one: cannot leave
	masquerade bool     // source: leaves masqueraded; the gateway's external address: may receive replies of masqueraded flows
}

// masqueradedSource is the route of all addresses that are masqueraded.
var masqueradedSource = &route{masquerade: true}

// MTUs are the inner MTUs of a gateway's legs, in bytes of IP packet.
type MTUs struct {
	Overlay int // between node and gateway
	Tunnel  int // the smallest of the overlay, the tunnel, and what the remote announced and the path carries
	Local   int // the smallest of the overlay and the tunnel by the gateway's own interfaces; 0 = Tunnel
}

// NewTable builds the table for a valid configuration. If handle is not nil, it returns the
// Handle of each node.
func NewTable(c *config.Gateway, mtu MTUs, handle func(*Node) any) (*Table, error) {
	t := &Table{
		nodes:       make(map[NodeKey]*Node, len(c.Overlay.Nodes)),
		sources:     make(map[netip.Addr]struct{}, len(c.Overlay.Nodes)),
		local:       new(bart.Table[*route]),
		granted:     new(bart.Fast[struct{}]),
		seen:        new(bart.Fast[*nat.Map]),
		remote:      new(bart.Fast[*nat.Map]),
		masqueraded: new(bart.Lite),
		origins:     make(map[uint32]*Node),
		overlayMTU:  mtu.Overlay,
		tunnelMTU:   mtu.Tunnel,
		localMTU:    max(mtu.Local, mtu.Tunnel),
	}
	if len(c.Overlay.Addresses) == 0 {
		return nil, fmt.Errorf("gateway: overlay.addresses is empty; give the gateway at least one internal address")
	}
	t.mac = macOf(c.Overlay.Addresses)
	for i := range t.mss {
		t.mss[i] = clamp(c.MSSClamp, mtu.Tunnel, i)
	}
	for _, p := range c.Proxy.Prefixes {
		t.local.Insert(p, &route{proxied: true})
	}
	for _, p := range c.Proxy.Except {
		t.local.Insert(p, &route{proxied: true, inside: true})
	}
	if err := t.addHost(c.Overlay.Addresses, c.Overlay.ExternalAddresses, len(c.Masquerade.Sources) > 0); err != nil {
		return nil, err
	}
	for _, p := range c.Masquerade.Sources {
		t.masqueraded.Insert(p)
	}
	for _, m := range c.Mappings {
		t.local.Insert(single(m.External), &route{mapped: true})
	}
	for i := range c.Overlay.Nodes {
		if err := t.addNode(&c.Overlay.Nodes[i], handle); err != nil {
			return nil, err
		}
	}
	for _, p := range c.Local.Prefixes {
		t.granted.Insert(p, struct{}{})
	}
	for _, p := range c.Local.ExternalPrefixes {
		t.granted.Insert(p, struct{}{})
	}
	for _, p := range c.Remote.Prefixes {
		m, err := nat.NewMap(p.CIDR, p.SeenAs)
		if err != nil {
			return nil, err
		}
		t.remote.Insert(p.CIDR, m)
		t.seen.Insert(p.SeenAs, m.Reverse())
	}
	return t, nil
}

// clamp returns the MSS that fits the MTU, without TCP options: RFC 6691. family is 0 for IPv4,
// 1 for IPv6.
func clamp(c config.MSSClamp, mtu, family int) uint16 {
	fits := mtu - packet.TCPHeaderLen - [...]int{packet.IPv4HeaderLen, packet.IPv6HeaderLen}[family]
	switch {
	case c.Off:
		return 0
	case c.Value != 0:
		return c.Value
	}
	return uint16(min(max(fits, 1), packet.MaxLen))
}

// addHost adds the gateway's own addresses.
func (t *Table) addHost(internal, external []netip.Addr, masquerade bool) error {
	pairs, err := pair(internal, external)
	if err != nil {
		return err
	}
	for _, a := range external {
		t.local.Insert(single(a), &route{masquerade: masquerade})
		if i := packet.FamilyIndex(a); !t.external[i].IsValid() {
			t.external[i] = a
		}
	}
	for _, p := range pairs {
		t.insertPair(nil, p, masquerade)
		if i := packet.FamilyIndex(p.internal); !t.internal[i].IsValid() {
			t.internal[i] = p.internal
		}
	}
	t.addresses, t.outside = slices.Concat(internal, external), external
	return nil
}

func (t *Table) addNode(c *config.Node, handle func(*Node) any) error {
	n := &Node{Name: c.Name, Underlay: c.Underlay, VNI: c.VNI, mac: macOf(c.Addresses)}
	if c.Encapsulation == config.VXLAN {
		n.Encapsulation = VXLAN
	}
	n.fillHeaders(t.mac)
	if handle != nil {
		n.Handle = handle(n)
	}
	t.nodes[n.Key()] = n
	t.sources[n.Underlay] = struct{}{}
	t.origins[n.VNI] = n

	pods := &route{node: n}
	for _, p := range c.Prefixes {
		t.local.Insert(p, pods)
	}
	pairs, err := pair(c.Addresses, c.ExternalAddresses)
	if err != nil {
		return err
	}
	for _, p := range pairs {
		t.insertPair(n, p, false)
	}
	return nil
}

// insertPair adds an internal address of a node (nil: of the gateway) and its external address.
func (t *Table) insertPair(n *Node, p addressPair, masquerade bool) {
	t.local.Insert(single(p.internal), &route{node: n, external: p.out, orphan: p.out == nil, inside: true})
	if p.out != nil {
		t.local.Insert(p.out.To(), &route{node: n, internal: p.out.Reverse(), masquerade: masquerade})
	}
}

// addressPair is an internal address and the map to its external one; nil if it has none.
type addressPair struct {
	internal netip.Addr
	out      *nat.Map
}

// pair pairs internal and external addresses: the n-th of each family with the n-th.
func pair(internal, external []netip.Addr) ([]addressPair, error) {
	var pairs []addressPair
	var used [2]int
	for _, in := range internal {
		p := addressPair{internal: in}
		nth := 0
		for _, out := range external {
			if packet.FamilyIndex(out) != packet.FamilyIndex(in) {
				continue
			}
			if nth == used[packet.FamilyIndex(in)] {
				m, err := nat.NewMap(single(in), single(out))
				if err != nil {
					return nil, err
				}
				p.out = m
				break
			}
			nth++
		}
		used[packet.FamilyIndex(in)]++
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// macOf derives the inner MAC of a host from its internal addresses: from the first IPv4 one,
// so that it does not change when IPv6 is added.
func macOf(addresses []netip.Addr) packet.MAC {
	for _, a := range addresses {
		if a.Is4() {
			return packet.MACOf(a)
		}
	}
	if len(addresses) > 0 {
		return packet.MACOf(addresses[0])
	}
	return packet.MAC{}
}

func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// isOwn reports whether an address is one of the gateway's own, or mapped.
func (t *Table) isOwn(a netip.Addr) bool {
	r, ok := t.local.Lookup(a)
	return ok && r.node == nil && !r.proxied
}

// NodeCount returns the number of nodes.
func (t *Table) NodeCount() int { return len(t.nodes) }

// RouteCount returns the number of local prefixes and addresses.
func (t *Table) RouteCount() int { return t.local.Size() }

// Addresses returns the gateway's own addresses, internal ones first. Read-only.
func (t *Table) Addresses() []netip.Addr { return t.addresses }

// ExternalAddresses returns those of the gateway itself. Read-only.
func (t *Table) ExternalAddresses() []netip.Addr { return t.outside }

// Source returns the address from which the host connects to an address of the remote cluster as this
// cluster sees it. Packets from it leave under the gateway's external address. It is invalid if the
// gateway has none of that family.
func (t *Table) Source(to netip.Addr) netip.Addr {
	internal := t.internal[packet.FamilyIndex(to)]
	if r, ok := t.local.Lookup(internal); !ok || r.external == nil {
		return netip.Addr{}
	}
	return internal
}

// LocalMTU returns the inner MTU that the gateway's own interfaces carry: at least MTU.
func (t *Table) LocalMTU() int { return t.localMTU }

// MTU returns the inner MTU of the whole path.
func (t *Table) MTU() int { return t.tunnelMTU }

// OverlayMTU returns the largest IP packet that the leg to the nodes carries.
func (t *Table) OverlayMTU() int { return t.overlayMTU }
