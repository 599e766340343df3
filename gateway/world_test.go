package gateway_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
)

// The world of these tests: two clusters with the same pod and internal CIDRs.
//
//	podA 10.0.1.5 ── node-1 10.80.0.11 ── gateway A ══ gateway B ── node-1 10.80.0.11 ── podB 10.0.2.9
//	                                      B is 10.71 and 10.73 here, A is 10.72 and 10.74 there
const clusterA = `
apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: a
overlay:
  listen: ":6091"
  vxlanListen: ":6092"
  addresses: [10.80.0.1, "fd00:80::1"]
  externalAddresses: [10.70.0.1, "fd00:70::1"]
  nodes:
  - name: node-1
    underlay: 192.0.2.21
    vni: 101
    addresses: [10.80.0.11, "fd00:80::11"]
    externalAddresses: [10.70.0.11, "fd00:70::11"]
    prefixes: [10.0.1.0/24, "fd00:10:0:1::/64", 10.9.1.0/24, "fd00:19::/64"]
  - name: node-2
    underlay: "2001:db8::22"
    encapsulation: vxlan
    vni: 102
    addresses: [10.80.0.12, "fd00:80::12"]
    prefixes: [10.0.2.0/24, 10.0.1.77, "fd00:10:0:2::/64", "fd00:10:0:1::77"]
wireguard:
  privateKeyFile: private.key
  peers:
  - {name: b-0, publicKey: "3p7bfXt9wbTTW2HC7OQ1Nz+DQ8hbeGdNrfx+FG+IK08="}
local:
  prefixes: [10.0.0.0/16, "fd00:10::/48"]
  externalPrefixes: [10.70.0.0/16, "fd00:70::/48"]
remote:
  cluster: b
  prefixes:
  - {cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}
  - {cidr: 10.70.0.0/16, seenAs: 10.73.0.0/16}
  - {cidr: "fd00:10::/48", seenAs: "fd00:71::/48"}
  - {cidr: "fd00:70::/48", seenAs: "fd00:73::/48"}
`

const clusterB = `
apiVersion: strait.dev/v1alpha1
kind: GatewayConfig
cluster: b
overlay:
  listen: ":6091"
  addresses: [10.80.0.1, "fd00:80::1"]
  externalAddresses: [10.70.0.1, "fd00:70::1"]
  nodes:
  - name: node-1
    underlay: 192.0.2.31
    vni: 201
    addresses: [10.80.0.11, "fd00:80::11"]
    externalAddresses: [10.70.0.11, "fd00:70::11"]
    prefixes: [10.0.2.0/24, "fd00:10:0:2::/64"]
wireguard:
  privateKeyFile: private.key
  peers:
  - {name: a-0, publicKey: "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo="}
local:
  prefixes: [10.0.0.0/16, "fd00:10::/48"]
  externalPrefixes: [10.70.0.0/16, "fd00:70::/48"]
remote:
  cluster: a
  prefixes:
  - {cidr: 10.0.0.0/16, seenAs: 10.72.0.0/16}
  - {cidr: 10.70.0.0/16, seenAs: 10.74.0.0/16}
  - {cidr: "fd00:10::/48", seenAs: "fd00:72::/48"}
  - {cidr: "fd00:70::/48", seenAs: "fd00:74::/48"}
`

// who names the hosts of the world in one family: where it is the same in both
// clusters, without A or B.
type who struct {
	podA, podB       string // as they are
	seenPodA         string // in B
	seenPodB         string // in A
	otherPodA        string // behind node-2
	ungrantedPodA    string // behind node-1, outside of local.prefixes
	absentPod        string // granted, behind no node
	absentSeenPod    string // the same of the other cluster, in A
	node, nodeOut    string // node-1: internal, external
	nodeWithout      string // node-2, without an external address
	seenNodeA        string // in B
	seenNodeB        string // in A
	gateway, gateOut string // internal, external
	seenGatewayA     string // in B
	seenGatewayB     string // in A
	foreign          string // in neither cluster
	multicast        string
}

var (
	v4 = who{
		podA: "10.0.1.5", podB: "10.0.2.9", seenPodA: "10.72.1.5", seenPodB: "10.71.2.9",
		otherPodA: "10.0.2.6", ungrantedPodA: "10.9.1.8", absentPod: "10.0.99.9", absentSeenPod: "10.71.99.9",
		node: "10.80.0.11", nodeOut: "10.70.0.11", nodeWithout: "10.80.0.12",
		seenNodeA: "10.74.0.11", seenNodeB: "10.73.0.11",
		gateway: "10.80.0.1", gateOut: "10.70.0.1", seenGatewayA: "10.74.0.1", seenGatewayB: "10.73.0.1",
		foreign: "198.51.100.7", multicast: "224.0.0.5",
	}
	v6 = who{
		podA: "fd00:10:0:1::5", podB: "fd00:10:0:2::9", seenPodA: "fd00:72:0:1::5", seenPodB: "fd00:71:0:2::9",
		otherPodA: "fd00:10:0:2::6", ungrantedPodA: "fd00:19::8", absentPod: "fd00:10:0:99::9", absentSeenPod: "fd00:71:0:99::9",
		node: "fd00:80::11", nodeOut: "fd00:70::11", nodeWithout: "fd00:80::12",
		seenNodeA: "fd00:74::11", seenNodeB: "fd00:73::11",
		gateway: "fd00:80::1", gateOut: "fd00:70::1", seenGatewayA: "fd00:74::1", seenGatewayB: "fd00:73::1",
		foreign: "2001:db8:ffff::7", multicast: "ff0e::5",
	}
	families = []who{v4, v6}
)

// MTUs of the world: a node leg of 1450 bytes, a tunnel of 1390.
const (
	overlayMTU = 1450
	tunnelMTU  = 1390
)

var mtus = gateway.MTUs{Overlay: overlayMTU, Tunnel: tunnelMTU}

// start is the moment at which tests begin. Their time is virtual.
var start = time.Unix(1_700_000_000, 0)

// side is one gateway and what is attached to it.
type side struct {
	*gateway.Gateway
	egress  *gateway.Egress
	ingress *gateway.Ingress
	origin  *gateway.Origin
	node    wire // of node-1
	now     time.Time
}

// configured reads a configuration, changed by edits.
func configured(t testing.TB, text string, edits ...func(*config.Gateway)) *config.Gateway {
	t.Helper()
	c, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c
}

func tableOf(t testing.TB, c *config.Gateway, m gateway.MTUs) *gateway.Table {
	t.Helper()
	table, err := gateway.NewTable(c, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func sideOf(table *gateway.Table, node wire) *side {
	g := gateway.New(table, rand.NewPCG(1, 2))
	return &side{g, gateway.NewEgress(g), gateway.NewIngress(g), gateway.NewOrigin(g), node, start}
}

func newA(t testing.TB, edits ...func(*config.Gateway)) *side {
	t.Helper()
	return sideOf(tableOf(t, configured(t, clusterA, edits...), mtus), node1A)
}

func newB(t testing.TB, edits ...func(*config.Gateway)) *side {
	t.Helper()
	return sideOf(tableOf(t, configured(t, clusterB, edits...), mtus), node1B)
}

// fromNode sends an IP packet from node-1.
func (s *side) fromNode(b []byte) gateway.Result { return s.send(s.node, s.node.frame(b)) }

// send sends a datagram with the outer source of a node.
func (s *side) send(w wire, datagram []byte) gateway.Result {
	return s.egress.Frame(datagram, w.outer(), s.now)
}

func (s *side) fromTunnel(b []byte) gateway.Result { return s.ingress.Packet(b, s.now) }

// wire is what a node puts around its packets.
type wire struct {
	underlay      netip.Addr
	vni           uint32
	encapsulation gateway.Encapsulation
	mac           [6]byte
}

func (w wire) outer() gateway.Outer {
	return gateway.Outer{Source: w.underlay, Encapsulation: w.encapsulation}
}

var (
	node1A = wire{addr("192.0.2.21"), 101, gateway.Geneve, [6]byte{0x0a, 0x58, 10, 80, 0, 11}}
	node2A = wire{addr("2001:db8::22"), 102, gateway.VXLAN, [6]byte{0x0a, 0x58, 10, 80, 0, 12}}
	node1B = wire{addr("192.0.2.31"), 201, gateway.Geneve, [6]byte{0x0a, 0x58, 10, 80, 0, 11}}
)

// gatewayMAC is that of 10.80.0.1.
var gatewayMAC = [6]byte{0x0a, 0x58, 10, 80, 0, 1}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func addrOf(b []byte) string {
	a, _ := netip.AddrFromSlice(b)
	return a.String()
}

// tunnelHeader is Geneve's (RFC 8926 section 3.4) or VXLAN's (RFC 7348 section 5).
func (w wire) tunnelHeader() []byte {
	vni := []byte{byte(w.vni >> 16), byte(w.vni >> 8), byte(w.vni), 0}
	if w.encapsulation == gateway.VXLAN {
		return append([]byte{0x08, 0, 0, 0}, vni...)
	}
	return append([]byte{0, 0, 0x65, 0x58}, vni...)
}

// frame puts tunnel and Ethernet header before an IP packet.
func (w wire) frame(b []byte) []byte {
	etherType := uint16(0x0800)
	if len(b) > 0 && b[0]>>4 == 6 {
		etherType = 0x86dd
	}
	return w.ethernet(gatewayMAC, w.mac, etherType, b)
}

func (w wire) ethernet(dst, src [6]byte, etherType uint16, payload []byte) []byte {
	b := append(w.tunnelHeader(), dst[:]...)
	b = append(b, src[:]...)
	b = append(b, byte(etherType>>8), byte(etherType))
	return append(b, payload...)
}
