//go:build lab || nightly

// Package lab tests the gateway on the real kernel: two clusters with the same pod network,
// six network namespaces, and two real gateway processes between them.
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

// site is one cluster of the topology.
type site struct {
	name               string // a, b
	pod, node, gw      *namespace
	pod4, pod6         netip.Addr
	bridge4, bridge6   netip.Addr // the node's end of its pods' links; also the underlay source towards the gateway
	gw4, gw6           netip.Addr // the gateway's underlay address
	wan4, wan6         netip.Addr
	podNet4, podNet6   netip.Prefix // the pods behind this site's node
	remote             []remotePrefix
	gateway            *gateway // nil if a kernel gateway replaces it
	encapsulation      string
	underlay, endpoint netip.Addr // outer addresses of node link and WireGuard, by options.underlay6
}

// remotePrefix is a prefix of the other site and the prefix to which this one maps it.
type remotePrefix struct{ CIDR, SeenAs netip.Prefix }

// Addresses that both clusters use.
var (
	podCIDRs      = prefixes("10.0.0.0/16", "fd00:10::/48")
	externalCIDRs = prefixes("10.70.0.0/16", "fd00:70::/48")

	nodeInternal    = addrs("10.80.0.11", "fd00:80::11")
	nodeExternal    = addrs("10.70.0.11", "fd00:70::11")
	gatewayInternal = addrs("10.80.0.1", "fd00:80::1")
	gatewayExternal = addrs("10.70.0.1", "fd00:70::1")
)

const vni = 101

// options vary the topology. The zero value is the normal case: IPv4 underlay, gateways on
// other machines than the nodes.
type options struct {
	// sameMachine keeps the default offloads of the veths between nodes and gateways, so
	// that super-packets and partial checksums cross. Otherwise they simulate physical
	// links between machines.
	sameMachine bool
	underlay6   bool
	// encapsulation of A's and B's node link; empty is the kernel's, Geneve first.
	encapsulation [2]string
	// kernelGateway replaces strait by kernel WireGuard, kernel tunnel device and nftables.
	kernelGateway [2]bool
	// configure changes a gateway's configuration before it starts.
	configure func(s *site, c *gatewayConfig)
	// flags of the gateway command in addition to --config.
	flags []string
}

type topology struct{ a, b *site }

// build builds the topology, starts the gateways and waits until a ping crosses.
func build(t *testing.T, o options) *topology {
	t.Helper()
	top := wire(t, o)
	keys := [2]keyPair{newKeyPair(t), newKeyPair(t)}
	for i, s := range []*site{top.a, top.b} {
		if o.kernelGateway[i] {
			startKernelGateway(t, s, top.other(s), keys[i], keys[1-i].public)
			continue
		}
		s.gateway = newGateway(t, s, top.other(s), keys[i], keys[1-i].public)
		s.gateway.flags = o.flags
		if o.configure != nil {
			o.configure(s, &s.gateway.config)
		}
		s.gateway.writeConfig(t)
		s.gateway.start(t)
	}
	if !o.kernelGateway[0] && !o.kernelGateway[1] {
		top.a.gateway.waitReady(t)
		top.b.gateway.waitReady(t)
	}
	waitForPing(t, top.a.pod, top.a.sees(top.b.pod4))
	waitForPing(t, top.b.pod, top.b.sees(top.a.pod6))
	return top
}

// wire builds the topology without gateways.
func wire(t *testing.T, o options) *topology {
	t.Helper()
	top := &topology{
		a: &site{
			name: "a", pod4: addr("10.0.1.5"), pod6: addr("fd00:10:0:1::5"),
			bridge4: addr("10.0.1.1"), bridge6: addr("fd00:10:0:1::1"), gw4: addr("10.0.1.2"), gw6: addr("fd00:10:0:1::2"),
			wan4: addr("203.0.113.1"), wan6: addr("2001:db8:113::1"),
			podNet4: netip.MustParsePrefix("10.0.1.0/24"), podNet6: netip.MustParsePrefix("fd00:10:0:1::/64"),
			remote: seenAs("10.71.0.0/16", "fd00:71::/48", "10.73.0.0/16", "fd00:73::/48"),
		},
		b: &site{
			name: "b", pod4: addr("10.0.2.9"), pod6: addr("fd00:10:0:2::9"),
			bridge4: addr("10.0.2.1"), bridge6: addr("fd00:10:0:2::1"), gw4: addr("10.0.2.2"), gw6: addr("fd00:10:0:2::2"),
			wan4: addr("203.0.113.2"), wan6: addr("2001:db8:113::2"),
			podNet4: netip.MustParsePrefix("10.0.2.0/24"), podNet6: netip.MustParsePrefix("fd00:10:0:2::/64"),
			remote: seenAs("10.72.0.0/16", "fd00:72::/48", "10.74.0.0/16", "fd00:74::/48"),
		},
	}
	for i, s := range []*site{top.a, top.b} {
		s.makeNamespaces(t)
		s.encapsulation = o.encapsulation[i]
		if s.encapsulation == "" {
			s.encapsulation = kernelEncapsulation(s.node)
		}
		s.underlay, s.endpoint = s.gw4, s.wan4
		if o.underlay6 {
			s.underlay, s.endpoint = s.gw6, s.wan6
		}
		s.joinPod(t)
		s.joinGateway(t, o.sameMachine)
		s.joinOverlay(t)
	}
	top.joinWAN(t)
	return top
}

func (top *topology) other(s *site) *site {
	if s == top.a {
		return top.b
	}
	return top.a
}

// sees returns the address to which s maps an address of the other site.
func (s *site) sees(theirs netip.Addr) netip.Addr {
	for _, r := range s.remote {
		if r.CIDR.Contains(theirs) {
			return replacePrefix(theirs, r.SeenAs)
		}
	}
	panic(fmt.Sprintf("site %s has no address for %s", s.name, theirs))
}

// replacePrefix keeps the host bits of a and uses the network bits (whole bytes) of p.
func replacePrefix(a netip.Addr, p netip.Prefix) netip.Addr {
	b, network := a.AsSlice(), p.Addr().AsSlice()
	copy(b[:p.Bits()/8], network)
	moved, _ := netip.AddrFromSlice(b)
	return moved
}

// seenAs returns the other site's pod and external CIDRs with the CIDRs to which this site
// maps them.
func seenAs(pods4, pods6, external4, external6 string) []remotePrefix {
	return []remotePrefix{
		{podCIDRs[0], netip.MustParsePrefix(pods4)}, {podCIDRs[1], netip.MustParsePrefix(pods6)},
		{externalCIDRs[0], netip.MustParsePrefix(external4)}, {externalCIDRs[1], netip.MustParsePrefix(external6)},
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func addrs(ss ...string) (as []netip.Addr) {
	for _, s := range ss {
		as = append(as, addr(s))
	}
	return as
}

func prefixes(ss ...string) (ps []netip.Prefix) {
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// family returns the index of a's address family in the pairs above: IPv4, IPv6.
func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

const (
	// linkMTU is the MTU of the underlay in the topology.
	linkMTU = 1500
	// innerMTU is the inner MTU of a link with WireGuard over IPv4: linkMTU minus outer
	// IPv4, UDP and WireGuard. The Geneve leg adds 50 bytes and leaves more.
	innerMTU = linkMTU - 20 - 8 - 32
	// smallMTU is the MTU of some scenarios. It differs from every MTU of the nodes' links.
	smallMTU = 1300
)
