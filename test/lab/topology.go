// Package lab builds what tests of gateways on the real kernel share: two clusters with the same
// pod network, six network namespaces, and two real gateway processes between them. The tests are
// in the packages below it.
//
//	podA ───── nodeA ───────── gwA ══════════ gwB ───────── nodeB ───── podB
//	10.0.1.5   10.0.1.1   10.0.1.2 WireGuard 10.0.2.2   10.0.2.1   10.0.2.9
//	           10.80.0.11 ─strait0─ 10.80.0.1   10.80.0.1 ─strait0─ 10.80.0.11     internal addresses
//	           10.70.0.11           10.70.0.1   10.70.0.1           10.70.0.11     external addresses
//
// The gateways are pods themselves: their underlay addresses are in the pod network.
// strait0 is the node's kernel tunnel device (Geneve, or VXLAN if the kernel has no
// Geneve). 203.0.113.1 and .2 are the gateways' addresses on the network between them.
//
// A maps B's pods to 10.71.0.0/16 and B's nodes and gateways to 10.73.0.0/16. B maps A's
// pods to 10.72.0.0/16 and A's nodes and gateways to 10.74.0.0/16.
//
// IPv6 has the same topology: fd00:10::/48 pods, fd00:80:: internal, fd00:70:: external,
// fd00:71:: to fd00:74:: as mapped.
package lab

import (
	"fmt"
	"net/netip"
	"testing"
)

// Site is one cluster of the topology.
type Site struct {
	Name               string // a, b
	Pod, Node, GW      *Namespace
	Pod4, Pod6         netip.Addr
	Bridge4, Bridge6   netip.Addr // the node's end of its pods' links; also the underlay source towards the gateway
	GW4, GW6           netip.Addr // the gateway's underlay address
	WAN4, wan6         netip.Addr
	PodNet4, PodNet6   netip.Prefix // the pods behind this site's node
	Remote             []RemotePrefix
	Gateway            *Gateway // nil if a kernel gateway replaces it
	Encapsulation      string
	Underlay, Endpoint netip.Addr // outer addresses of node link and WireGuard, by Options.Underlay6
}

// RemotePrefix is a prefix of the other site and the prefix to which this one maps it.
type RemotePrefix struct{ CIDR, SeenAs netip.Prefix }

// Addresses that both clusters use.
var (
	PodCIDRs      = Prefixes("10.0.0.0/16", "fd00:10::/48")
	ExternalCIDRs = Prefixes("10.70.0.0/16", "fd00:70::/48")

	NodeInternal    = Addrs("10.80.0.11", "fd00:80::11")
	NodeExternal    = Addrs("10.70.0.11", "fd00:70::11")
	GatewayInternal = Addrs("10.80.0.1", "fd00:80::1")
	GatewayExternal = Addrs("10.70.0.1", "fd00:70::1")
)

// VNI is the VNI of every node link.
const VNI = 101

// Options vary the topology. The zero value is the normal case: IPv4 underlay, gateways on
// other machines than the nodes.
type Options struct {
	// SameMachine keeps the default offloads of the veths between nodes and gateways, so
	// that super-packets and partial checksums cross. Otherwise they simulate physical
	// links between machines.
	SameMachine bool
	Underlay6   bool
	// Encapsulation of A's and B's node link; empty is the kernel's, Geneve first.
	Encapsulation [2]string
	// KernelGateway replaces strait by kernel WireGuard, kernel tunnel device and nftables.
	KernelGateway [2]bool
	// Configure changes a gateway's configuration before it starts.
	Configure func(s *Site, c *GatewayConfig)
	// Flags of the gateway command in addition to --config.
	Flags []string
}

// Topology is both clusters.
type Topology struct{ A, B *Site }

// Build builds the topology, starts the gateways and waits until a ping crosses.
func Build(t *testing.T, o Options) *Topology {
	t.Helper()
	top := Wire(t, o)
	keys := [2]KeyPair{NewKeyPair(t), NewKeyPair(t)}
	for i, s := range []*Site{top.A, top.B} {
		if o.KernelGateway[i] {
			startKernelGateway(t, s, top.Other(s), keys[i], keys[1-i].Public)
			continue
		}
		s.Gateway = NewGateway(t, s, top.Other(s), keys[i], keys[1-i].Public)
		s.Gateway.Flags = o.Flags
		if o.Configure != nil {
			o.Configure(s, &s.Gateway.Config)
		}
		s.Gateway.WriteConfig(t)
		s.Gateway.Start(t)
	}
	if !o.KernelGateway[0] && !o.KernelGateway[1] {
		top.A.Gateway.WaitReady(t)
		top.B.Gateway.WaitReady(t)
	}
	WaitForPing(t, top.A.Pod, top.A.Sees(top.B.Pod4))
	WaitForPing(t, top.B.Pod, top.B.Sees(top.A.Pod6))
	return top
}

// Wire builds the topology without gateways.
func Wire(t *testing.T, o Options) *Topology {
	t.Helper()
	top := &Topology{
		A: &Site{
			Name: "a", Pod4: Addr("10.0.1.5"), Pod6: Addr("fd00:10:0:1::5"),
			Bridge4: Addr("10.0.1.1"), Bridge6: Addr("fd00:10:0:1::1"), GW4: Addr("10.0.1.2"), GW6: Addr("fd00:10:0:1::2"),
			WAN4: Addr("203.0.113.1"), wan6: Addr("2001:db8:113::1"),
			PodNet4: netip.MustParsePrefix("10.0.1.0/24"), PodNet6: netip.MustParsePrefix("fd00:10:0:1::/64"),
			Remote: SeenAs("10.71.0.0/16", "fd00:71::/48", "10.73.0.0/16", "fd00:73::/48"),
		},
		B: &Site{
			Name: "b", Pod4: Addr("10.0.2.9"), Pod6: Addr("fd00:10:0:2::9"),
			Bridge4: Addr("10.0.2.1"), Bridge6: Addr("fd00:10:0:2::1"), GW4: Addr("10.0.2.2"), GW6: Addr("fd00:10:0:2::2"),
			WAN4: Addr("203.0.113.2"), wan6: Addr("2001:db8:113::2"),
			PodNet4: netip.MustParsePrefix("10.0.2.0/24"), PodNet6: netip.MustParsePrefix("fd00:10:0:2::/64"),
			Remote: SeenAs("10.72.0.0/16", "fd00:72::/48", "10.74.0.0/16", "fd00:74::/48"),
		},
	}
	for i, s := range []*Site{top.A, top.B} {
		s.MakeNamespaces(t)
		s.Encapsulation = o.Encapsulation[i]
		if s.Encapsulation == "" {
			s.Encapsulation = s.Node.Encapsulation()
		}
		s.Underlay, s.Endpoint = s.GW4, s.WAN4
		if o.Underlay6 {
			s.Underlay, s.Endpoint = s.GW6, s.wan6
		}
		s.JoinPod(t)
		s.JoinGateway(t, o.SameMachine)
		s.JoinOverlay(t)
	}
	top.joinWAN(t)
	return top
}

// Other returns the other site.
func (top *Topology) Other(s *Site) *Site {
	if s == top.A {
		return top.B
	}
	return top.A
}

// Sees returns the address to which s maps an address of the other site.
func (s *Site) Sees(theirs netip.Addr) netip.Addr {
	for _, r := range s.Remote {
		if r.CIDR.Contains(theirs) {
			return ReplacePrefix(theirs, r.SeenAs)
		}
	}
	panic(fmt.Sprintf("site %s has no address for %s", s.Name, theirs))
}

// ReplacePrefix keeps the host bits of a and uses the network bits (whole bytes) of p.
func ReplacePrefix(a netip.Addr, p netip.Prefix) netip.Addr {
	b, network := a.AsSlice(), p.Addr().AsSlice()
	copy(b[:p.Bits()/8], network)
	moved, _ := netip.AddrFromSlice(b)
	return moved
}

// SeenAs returns the other site's pod and external CIDRs with the CIDRs to which this site
// maps them.
func SeenAs(pods4, pods6, external4, external6 string) []RemotePrefix {
	return []RemotePrefix{
		{PodCIDRs[0], netip.MustParsePrefix(pods4)}, {PodCIDRs[1], netip.MustParsePrefix(pods6)},
		{ExternalCIDRs[0], netip.MustParsePrefix(external4)}, {ExternalCIDRs[1], netip.MustParsePrefix(external6)},
	}
}

// Addr parses an address.
func Addr(s string) netip.Addr { return netip.MustParseAddr(s) }

// Addrs parses addresses.
func Addrs(ss ...string) (as []netip.Addr) {
	for _, s := range ss {
		as = append(as, Addr(s))
	}
	return as
}

// Prefixes parses prefixes.
func Prefixes(ss ...string) (ps []netip.Prefix) {
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// Family returns the index of a's address family in the pairs above: IPv4, IPv6.
func Family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

const (
	// LinkMTU is the MTU of the underlay in the topology.
	LinkMTU = 1500
	// InnerMTU is the inner MTU of a link with WireGuard over IPv4: LinkMTU minus outer
	// IPv4, UDP and WireGuard. The Geneve leg adds 50 bytes and leaves more.
	InnerMTU = LinkMTU - 20 - 8 - 32
	// SmallMTU is the MTU of some scenarios. It differs from every MTU of the nodes' links.
	SmallMTU = 1300
)
