package demo

import (
	"net/netip"

	"strait.dev/strait/config"
	"strait.dev/strait/packet"
)

// family indexes values that exist once for IPv4 and once for IPv6.
type family int

const (
	v4 family = iota
	v6
)

func familyOf(a netip.Addr) family { return family(packet.FamilyIndex(a)) }

type (
	addresses [2]netip.Addr
	prefixes  [2]netip.Prefix
)

// Addresses that both clusters use, as independently built clusters do.
var (
	podRange      = prefixesOf("10.0.0.0/16", "fd10::/48")
	externalRange = prefixesOf("10.70.0.0/16", "fd70::/64")

	gatewayInternal = addressesOf("10.80.0.1", "fd80::1")
	gatewayExternal = addressesOf("10.70.0.1", "fd70::1")
	nodeInternal    = addressesOf("10.80.0.11", "fd80::11")
	nodeExternal    = addressesOf("10.70.0.11", "fd70::11")
)

const (
	// innerMTU is the MTU inside WireGuard over IPv6 on a network with an MTU of
	// 1500 bytes. Loopback would allow far more.
	innerMTU = 1420
	// podMTU is the MTU of the pods' interfaces: larger than innerMTU, as in most
	// clusters.
	podMTU = 1500
)

// plan holds the values that differ between the two clusters.
type plan struct {
	name string

	// Loopback addresses of the underlay. Node and gateway need one each, because
	// both use the same UDP port.
	nodeUnderlay, gatewayUnderlay netip.Addr
	vni                           uint32

	address  addresses // of the pod
	router   addresses // the node's address towards the pod
	nodePods prefixes  // the pods behind the node

	// The CIDRs to which this cluster maps the other one.
	remotePods, remoteExternal prefixes
	// The addresses to which the other cluster maps this one.
	podSeen, gatewaySeen, nodeSeen addresses
}

var planA = plan{
	name:            "a",
	nodeUnderlay:    netip.MustParseAddr("127.0.1.11"),
	gatewayUnderlay: netip.MustParseAddr("127.0.1.1"),
	vni:             101,
	address:         addressesOf("10.0.1.5", "fd10:0:0:1::5"),
	router:          addressesOf("10.0.1.1", "fd10:0:0:1::1"),
	nodePods:        prefixesOf("10.0.1.0/24", "fd10:0:0:1::/64"),
	remotePods:      prefixesOf("10.71.0.0/16", "fd71::/48"),
	remoteExternal:  prefixesOf("10.73.0.0/16", "fd73::/64"),
	podSeen:         addressesOf("10.72.1.5", "fd72:0:0:1::5"),
	gatewaySeen:     addressesOf("10.74.0.1", "fd74::1"),
	nodeSeen:        addressesOf("10.74.0.11", "fd74::11"),
}

var planB = plan{
	name:            "b",
	nodeUnderlay:    netip.MustParseAddr("127.0.2.11"),
	gatewayUnderlay: netip.MustParseAddr("127.0.2.1"),
	vni:             202,
	address:         addressesOf("10.0.2.9", "fd10:0:0:2::9"),
	router:          addressesOf("10.0.2.1", "fd10:0:0:2::1"),
	nodePods:        prefixesOf("10.0.2.0/24", "fd10:0:0:2::/64"),
	remotePods:      prefixesOf("10.72.0.0/16", "fd72::/48"),
	remoteExternal:  prefixesOf("10.74.0.0/16", "fd74::/64"),
	podSeen:         addressesOf("10.71.2.9", "fd71:0:0:2::9"),
	gatewaySeen:     addressesOf("10.73.0.1", "fd73::1"),
	nodeSeen:        addressesOf("10.73.0.11", "fd73::11"),
}

func (p *plan) config(remote string, port uint16, w config.WireGuard) *config.Gateway {
	c := &config.Gateway{
		APIVersion: config.APIVersion,
		Kind:       config.Kind,
		Cluster:    p.name,
		Overlay: config.Overlay{
			Listen:            config.ListenAddress{Addr: p.gatewayUnderlay, Port: port},
			Addresses:         gatewayInternal[:],
			ExternalAddresses: gatewayExternal[:],
			MTU:               innerMTU,
			Nodes: []config.Node{{
				Name:              "node-" + p.name,
				Underlay:          p.nodeUnderlay,
				VNI:               p.vni,
				Addresses:         nodeInternal[:],
				ExternalAddresses: nodeExternal[:],
				Prefixes:          p.nodePods[:],
			}},
		},
		WireGuard: w,
		Local:     config.Local{Prefixes: podRange[:], ExternalPrefixes: externalRange[:]},
		Remote:    config.Remote{Cluster: remote},
	}
	for f := range podRange {
		c.Remote.Prefixes = append(c.Remote.Prefixes,
			config.RemotePrefix{CIDR: podRange[f], SeenAs: p.remotePods[f]},
			config.RemotePrefix{CIDR: externalRange[f], SeenAs: p.remoteExternal[f]})
	}
	return c
}

func addressesOf(four, six string) addresses {
	return addresses{v4: netip.MustParseAddr(four), v6: netip.MustParseAddr(six)}
}

func prefixesOf(four, six string) prefixes {
	return prefixes{v4: netip.MustParsePrefix(four), v6: netip.MustParsePrefix(six)}
}
