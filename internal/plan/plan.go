// Package plan has two clusters with the same CIDRs, each with a pod, a node and a gateway: their
// addresses and configurations, for the demo and the benchmarks.
package plan

import (
	"net/netip"

	"strait.dev/strait/config"
)

// V4 and V6 index values that exist once for IPv4 and once for IPv6.
const (
	V4 = iota
	V6
)

// Addresses are one of each family.
type Addresses [2]netip.Addr

// Prefixes are one of each family.
type Prefixes [2]netip.Prefix

// Addresses that both clusters use, as independently built clusters do.
var (
	PodCIDRs      = PrefixesOf("10.0.0.0/16", "fd10::/48")
	ExternalCIDRs = PrefixesOf("10.70.0.0/16", "fd70::/64")

	GatewayInternal = AddressesOf("10.80.0.1", "fd80::1")
	GatewayExternal = AddressesOf("10.70.0.1", "fd70::1")
	NodeInternal    = AddressesOf("10.80.0.11", "fd80::11")
	NodeExternal    = AddressesOf("10.70.0.11", "fd70::11")
)

// InnerMTU is that of WireGuard over IPv6 on a network with an MTU of 1500 bytes.
const InnerMTU = 1420

// Cluster holds the values that differ between the two clusters.
type Cluster struct {
	Name string

	// Loopback addresses of the underlay. Node and gateway need one each, because
	// both use the same UDP port.
	NodeUnderlay, GatewayUnderlay netip.Addr
	VNI                           uint32

	Address  Addresses // of the pod
	Router   Addresses // the node's address towards the pod
	NodePods Prefixes  // the pods behind the node

	// The CIDRs to which this cluster maps the other one.
	RemotePods, RemoteExternal Prefixes
	// The addresses to which the other cluster maps this one.
	PodSeen, GatewaySeen, NodeSeen Addresses
}

// A is one of the clusters.
var A = Cluster{
	Name:            "a",
	NodeUnderlay:    netip.MustParseAddr("127.0.1.11"),
	GatewayUnderlay: netip.MustParseAddr("127.0.1.1"),
	VNI:             101,
	Address:         AddressesOf("10.0.1.5", "fd10:0:0:1::5"),
	Router:          AddressesOf("10.0.1.1", "fd10:0:0:1::1"),
	NodePods:        PrefixesOf("10.0.1.0/24", "fd10:0:0:1::/64"),
	RemotePods:      PrefixesOf("10.71.0.0/16", "fd71::/48"),
	RemoteExternal:  PrefixesOf("10.73.0.0/16", "fd73::/64"),
	PodSeen:         AddressesOf("10.72.1.5", "fd72:0:0:1::5"),
	GatewaySeen:     AddressesOf("10.74.0.1", "fd74::1"),
	NodeSeen:        AddressesOf("10.74.0.11", "fd74::11"),
}

// B is the other one.
var B = Cluster{
	Name:            "b",
	NodeUnderlay:    netip.MustParseAddr("127.0.2.11"),
	GatewayUnderlay: netip.MustParseAddr("127.0.2.1"),
	VNI:             202,
	Address:         AddressesOf("10.0.2.9", "fd10:0:0:2::9"),
	Router:          AddressesOf("10.0.2.1", "fd10:0:0:2::1"),
	NodePods:        PrefixesOf("10.0.2.0/24", "fd10:0:0:2::/64"),
	RemotePods:      PrefixesOf("10.72.0.0/16", "fd72::/48"),
	RemoteExternal:  PrefixesOf("10.74.0.0/16", "fd74::/64"),
	PodSeen:         AddressesOf("10.71.2.9", "fd71:0:0:2::9"),
	GatewaySeen:     AddressesOf("10.73.0.1", "fd73::1"),
	NodeSeen:        AddressesOf("10.73.0.11", "fd73::11"),
}

// Config returns the configuration of the cluster's gateway, which listens for its node on a port.
func (p *Cluster) Config(port uint16, w config.WireGuard) *config.Gateway {
	c := &config.Gateway{
		APIVersion: config.APIVersion,
		Kind:       config.Kind,
		Cluster:    p.Name,
		Overlay: config.Overlay{
			Listen:            config.ListenAddress{Addr: p.GatewayUnderlay, Port: port},
			Addresses:         GatewayInternal[:],
			ExternalAddresses: GatewayExternal[:],
			MTU:               InnerMTU,
			Nodes: []config.Node{{
				Name:              "node-" + p.Name,
				Underlay:          p.NodeUnderlay,
				VNI:               p.VNI,
				Addresses:         NodeInternal[:],
				ExternalAddresses: NodeExternal[:],
				Prefixes:          p.NodePods[:],
			}},
		},
		WireGuard: w,
		Local:     config.Local{Prefixes: PodCIDRs[:], ExternalPrefixes: ExternalCIDRs[:]},
		Remote:    config.Remote{Cluster: map[string]string{A.Name: B.Name, B.Name: A.Name}[p.Name]},
	}
	for f := range PodCIDRs {
		c.Remote.Prefixes = append(c.Remote.Prefixes,
			config.RemotePrefix{CIDR: PodCIDRs[f], SeenAs: p.RemotePods[f]},
			config.RemotePrefix{CIDR: ExternalCIDRs[f], SeenAs: p.RemoteExternal[f]})
	}
	return c
}

// AddressesOf parses addresses.
func AddressesOf(four, six string) Addresses {
	return Addresses{V4: netip.MustParseAddr(four), V6: netip.MustParseAddr(six)}
}

// PrefixesOf parses prefixes.
func PrefixesOf(four, six string) Prefixes {
	return Prefixes{V4: netip.MustParsePrefix(four), V6: netip.MustParsePrefix(six)}
}
