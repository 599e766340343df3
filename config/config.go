package config

import (
	"net/netip"
	"time"
)

// What a configuration says about itself.
const (
	APIVersion = "strait.dev/v1alpha1"
	Kind       = "GatewayConfig"
)

// Defaults that Parse applies to absent fields.
const (
	DefaultOverlayPort   = 6091  // Geneve, UDP
	DefaultWireGuardPort = 51840 // UDP
)

// Gateway is the whole configuration of one gateway.
//
// It is plain data: copy it, compare its parts, build it in code. It is not safe
// for use while another goroutine changes it.
type Gateway struct {
	APIVersion, Kind string
	Cluster          string // this cluster's ID, an RFC 1123 label
	Overlay          Overlay
	WireGuard        WireGuard
	Local            Local
	Remote           Remote
	Mappings         []Mapping
	MSSClamp         MSSClamp
	Observability    Observability

	source *source // the text it was parsed from, for line numbers; nil when built in code
}

// Overlay is the side of this cluster's nodes.
type Overlay struct {
	Listen            ListenAddress // Geneve; zero: not served
	VXLANListen       ListenAddress // VXLAN; zero: not served
	Addresses         []netip.Addr  // the gateway's internal addresses
	ExternalAddresses []netip.Addr  // how the gateway itself appears to the remote cluster
	MTU               int           // inner MTU, bytes of IP packet; 0: derived from the interfaces
	Nodes             []Node
}

// Encapsulation is how a node wraps its frames.
type Encapsulation string

// The encapsulations. An empty one is Geneve.
const (
	Geneve Encapsulation = "geneve"
	VXLAN  Encapsulation = "vxlan"
)

// Node is one node of this cluster.
type Node struct {
	Name              string
	Underlay          netip.Addr // outer source and destination address of its frames
	Encapsulation     Encapsulation
	VNI               uint32         // 1 to 2^24-1
	Addresses         []netip.Addr   // internal
	ExternalAddresses []netip.Addr   // the n-th of a family stands for the n-th internal one of that family
	Prefixes          []netip.Prefix // pods behind the node
}

// WireGuard is the side of the other cluster's gateways.
type WireGuard struct {
	ListenPort     uint16 // UDP, on all addresses; 0: any free port
	PrivateKeyFile string // the key itself is never part of a configuration
	Peers          []Peer
}

// Peer is one gateway of the remote cluster.
type Peer struct {
	Name                string
	PublicKey           Key
	PresharedKeyFile    string        // empty: none
	Endpoint            string        // host:port; empty: wait for the peer
	PersistentKeepalive time.Duration // whole seconds, up to 65535; 0: none
}

// Local is what the remote cluster may reach here.
type Local struct {
	Prefixes         []netip.Prefix // pods
	ExternalPrefixes []netip.Prefix // where external addresses of nodes and gateways come from
}

// Remote is what the remote cluster sends from, and how this cluster sees it.
type Remote struct {
	Cluster  string // the remote cluster's ID
	Prefixes []RemotePrefix
}

// RemotePrefix is one range of the remote cluster. CIDR and SeenAs are of one
// family and length; host bits are kept from one to the other.
type RemotePrefix struct {
	CIDR   netip.Prefix // as the remote cluster knows it
	SeenAs netip.Prefix // as this cluster knows it
}

// Mapping lets an external address stand for a target outside the pod network.
type Mapping struct {
	External, Target netip.Addr
}

// MSSClamp says to what the MSS of TCP connections is lowered. The zero value
// derives it from the MTU.
type MSSClamp struct {
	Off   bool
	Value uint16 // bytes of TCP payload, 536 to 65495; 0: derived from the MTU
}

// Observability is where metrics and health are served.
type Observability struct {
	Listen ListenAddress // HTTP; zero: not served
}
