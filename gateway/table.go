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

// Table is everything the journeys look up: who the nodes are, what lies behind
// them, what the remote cluster may send and reach, and under which addresses
// each cluster appears to the other.
//
// A Table is immutable and safe for concurrent use. A zero or nil Table is not
// valid; a Table made from a configuration without nodes, grants or remote
// prefixes drops everything.
type Table struct {
	nodes   map[NodeKey]*Node
	sources map[netip.Addr]struct{} // outer addresses of nodes, to tell a stranger from a wrong VNI

	// local: every address on this side, by longest prefix. Pods' prefixes,
	// nodes' internal and external addresses, the gateway's own.
	local *bart.Table[*route]
	// granted: what the remote cluster may reach here, and what may reach it
	// from here.
	granted *bart.Fast[struct{}]
	// seen: how this cluster sees the remote -> what it really is there.
	seen *bart.Fast[*nat.Map]
	// remote: what the remote cluster sends from -> how this cluster sees it.
	remote *bart.Fast[*nat.Map]
	// masqueraded are further sources that may leave; they are masqueraded.
	masqueraded *bart.Lite
	// origins: nodes by what flows remember of them, the VNI.
	origins map[uint32]*Node

	mapped     []netip.Addr // external addresses that stand for targets outside of the pod network
	mac        packet.MAC
	internal   [2]netip.Addr           // the gateway itself, IPv4 and IPv6; invalid = none
	external   [2]netip.Addr           // how it appears to the remote cluster
	addresses  []netip.Addr            // all of the gateway's own
	outside    []netip.Addr            // the external ones of these
	overlayMTU int                     // largest inner packet that a node leg carries
	tunnelMTU  int                     // largest inner packet that the whole way carries
	tunnelFrom map[netip.Addr]struct{} // where the gateway's own tunnel sends from
	tunnelPort uint16                  // and its port; 0 = any
	mss        [2]uint16               // MSS clamp for IPv4 and IPv6; 0 = off
}

// route says what lies behind a local prefix.
type route struct {
	node       *Node    // nil: the gateway's own host
	external   *nat.Map // a node's internal address: under which it leaves (egress source)
	internal   *nat.Map // a node's external address: what it stands for (ingress destination)
	inside     bool     // an internal address: nothing of the remote cluster's business
	orphan     bool     // one without an external one: cannot leave
	masquerade bool     // leaves masqueraded; behind the gateway's external address: may be the way back
}

// masqueradedSource is what lies behind an address that is masqueraded.
var masqueradedSource = &route{masquerade: true}

// MTUs are the inner MTUs, in bytes of IP packet, that the legs of a gateway carry.
type MTUs struct {
	Overlay int // between node and gateway
	Tunnel  int // the smallest of the overlay, the tunnel, and what the remote announced
}

// NewTable builds the table for a valid configuration. handle, if not nil, gives
// each node its Handle.
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
	}
	if len(c.Overlay.Addresses) == 0 {
		return nil, fmt.Errorf("gateway: overlay.addresses is empty; give the gateway at least one internal address")
	}
	t.mac = macOf(c.Overlay.Addresses)
	for i := range t.mss {
		t.mss[i] = clamp(c.MSSClamp, mtu.Tunnel, i)
	}
	if err := t.addHost(c.Overlay.Addresses, c.Overlay.ExternalAddresses, len(c.Masquerade.Sources) > 0); err != nil {
		return nil, err
	}
	for _, p := range c.Masquerade.Sources {
		t.masqueraded.Insert(p)
	}
	for _, m := range c.Mappings {
		t.local.Insert(single(m.External), &route{})
		t.mapped = append(t.mapped, m.External)
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

// clamp is the MSS that fits the MTU: without TCP options, RFC 6691. family is 0
// for IPv4, 1 for IPv6.
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

// addHost makes the gateway's own addresses known.
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

// insertPair makes an internal address of a node (nil: of the gateway) known,
// and the external one that stands for it.
func (t *Table) insertPair(n *Node, p addressPair, masquerade bool) {
	t.local.Insert(single(p.internal), &route{node: n, external: p.out, orphan: p.out == nil, inside: true})
	if p.out != nil {
		t.local.Insert(p.out.To(), &route{node: n, internal: p.out.Reverse(), masquerade: masquerade})
	}
}

// addressPair is an internal address and the map that takes it outside; nil
// where there is no external address of its family left.
type addressPair struct {
	internal netip.Addr
	out      *nat.Map
}

// pair joins internal and external addresses: the n-th of each family with the n-th.
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

// macOf derives the inner MAC of a host from its internal addresses: from the
// first IPv4 one, so that it does not change when IPv6 is added.
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

// isOwn reports whether an address is one of the gateway's own.
func (t *Table) isOwn(a netip.Addr) bool {
	r, ok := t.local.Lookup(a)
	return ok && r.node == nil
}

// NodeCount is the number of nodes.
func (t *Table) NodeCount() int { return len(t.nodes) }

// RouteCount is the number of local prefixes and addresses.
func (t *Table) RouteCount() int { return t.local.Size() }

// Addresses are the gateway's own addresses, internal ones first. Not to be changed.
func (t *Table) Addresses() []netip.Addr { return t.addresses }

// Mapped are the external addresses that stand for targets outside of the pod network.
// The host serves them. Not to be changed.
func (t *Table) Mapped() []netip.Addr { return t.mapped }

// ExternalAddresses are those of the gateway itself. Not to be changed.
func (t *Table) ExternalAddresses() []netip.Addr { return t.outside }

// MTU is the inner MTU of the whole way.
func (t *Table) MTU() int { return t.tunnelMTU }
