package config

import (
	"net/netip"
	"time"
)

// The values of apiVersion and kind.
const (
	APIVersion = "strait.dev/v1alpha1"
	Kind       = "GatewayConfig"
)

// Defaults that Parse applies to absent fields.
const (
	DefaultOverlayPort   = 6091  // Geneve, UDP
	DefaultWireGuardPort = 51840 // UDP
)

// SocketBuffer is the size in bytes that a gateway requests for the receive queue and the send queue of each of its UDP sockets.
// For an unprivileged process the kernel grants at most net.core.rmem_max and net.core.wmem_max.
const SocketBuffer = 4 << 20

// Gateway is the complete configuration of one gateway.
//
// It is plain data: it can be copied, compared in parts, and built in code. It is not safe for concurrent use with a
// goroutine that changes it.
type Gateway struct {
	APIVersion    string        `yaml:"apiVersion"`
	Kind          string        `yaml:"kind"`
	Cluster       string        `yaml:"cluster"` // this cluster's ID, an RFC 1123 label
	Overlay       Overlay       `yaml:"overlay"`
	WireGuard     WireGuard     `yaml:"wireguard"`
	Local         Local         `yaml:"local,omitempty"`
	Remote        Remote        `yaml:"remote,omitempty"`
	Masquerade    Masquerade    `yaml:"masquerade,omitempty"`
	Mappings      []Mapping     `yaml:"mappings,omitempty"`
	Proxy         Proxy         `yaml:"proxy,omitempty"`
	Forwards      []Forward     `yaml:"forwards,omitempty"`
	Callers       Callers       `yaml:"callers,omitempty"`
	MSSClamp      MSSClamp      `yaml:"mssClamp"`
	Observability Observability `yaml:"observability"`

	source *source // the text it was parsed from, for line numbers; nil when built in code
}

// Overlay configures the side of this cluster's nodes.
type Overlay struct {
	Listen            ListenAddress `yaml:"listen"`                           // Geneve; zero: not served
	VXLANListen       ListenAddress `yaml:"vxlanListen"`                      // VXLAN; zero: not served
	Addresses         []netip.Addr  `yaml:"addresses,omitempty,flow"`         // the gateway's internal addresses
	ExternalAddresses []netip.Addr  `yaml:"externalAddresses,omitempty,flow"` // how the gateway itself appears to the remote cluster
	MTU               int           `yaml:"mtu"`                              // inner MTU, bytes of IP packet; 0: derived from the interfaces
	Nodes             []Node        `yaml:"nodes,omitempty"`
}

// Encapsulation is the encapsulation of frames between a node and the gateway.
type Encapsulation string

// The encapsulations. An empty one is Geneve.
const (
	Geneve Encapsulation = "geneve"
	VXLAN  Encapsulation = "vxlan"
)

// Node is one node of this cluster.
type Node struct {
	Name              string         `yaml:"name"`
	Underlay          netip.Addr     `yaml:"underlay"` // outer source and destination address of its frames
	Encapsulation     Encapsulation  `yaml:"encapsulation"`
	VNI               uint32         `yaml:"vni"`                                      // 1 to 2^24-1
	Addresses         []netip.Addr   `yaml:"addresses,omitempty,flow"`                 // internal
	ExternalAddresses []netip.Addr   `yaml:"externalAddresses,omitempty,flow"`         // the n-th of a family belongs to the n-th internal one of that family
	Prefixes          []netip.Prefix `yaml:"prefixes,omitempty,flow" accept:"address"` // pods behind the node
}

// WireGuard configures the side of the remote cluster's gateways.
type WireGuard struct {
	ListenPort     uint16 `yaml:"listenPort"`         // UDP, on all addresses; 0: any free port
	Ordinal        int    `yaml:"ordinal,omitempty"`  // of this gateway among those of its cluster for the peering, from 0
	Replicas       int    `yaml:"replicas,omitempty"` // number of these gateways; 0: 1
	PrivateKeyFile string `yaml:"privateKeyFile"`     // the key itself is never part of a configuration
	Peers          []Peer `yaml:"peers,omitempty"`
}

// MaxReplicas is the maximum number of gateways of a cluster for one peering.
const MaxReplicas = 16

// Peer is one gateway of the remote cluster, or one of several key pairs for it: entries with the same Gateway are
// alternatives, the first is preferred.
type Peer struct {
	Name                string        `yaml:"name"`
	Gateway             string        `yaml:"gateway,omitempty"` // the remote gateway's name; empty: Name
	PublicKey           Key           `yaml:"publicKey"`
	PrivateKeyFile      string        `yaml:"privateKeyFile,omitempty"`      // this gateway's own key for the peer; empty: the one of WireGuard
	PresharedKeyFile    string        `yaml:"presharedKeyFile,omitempty"`    // empty: none
	Endpoint            string        `yaml:"endpoint,omitempty"`            // host:port; empty: wait for the peer
	MoreEndpoints       []string      `yaml:"moreEndpoints,omitempty,flow"`  // likewise; tried in turn with endpoint while the peer does not answer
	PersistentKeepalive time.Duration `yaml:"persistentKeepalive,omitempty"` // whole seconds, up to 65535; 0: none
}

// RemoteGateway returns the name of the peer's gateway.
func (p *Peer) RemoteGateway() string {
	if p.Gateway != "" {
		return p.Gateway
	}
	return p.Name
}

// OwnKeyFile returns the file with this gateway's own private key for a peer.
func (w *WireGuard) OwnKeyFile(p *Peer) string {
	if p.PrivateKeyFile != "" {
		return p.PrivateKeyFile
	}
	return w.PrivateKeyFile
}

// Endpoints returns the endpoints of the peer in the order in which to try them. It is empty if the peer initiates.
func (p *Peer) Endpoints() []string {
	if p.Endpoint == "" {
		return nil
	}
	return append([]string{p.Endpoint}, p.MoreEndpoints...)
}

// Local is what the remote cluster may reach here.
type Local struct {
	Prefixes         []netip.Prefix `yaml:"prefixes,omitempty,flow"`         // pods
	ExternalPrefixes []netip.Prefix `yaml:"externalPrefixes,omitempty,flow"` // prefixes of the external addresses of nodes and gateways
}

// Remote is what the remote cluster sends from, and how this cluster sees it.
type Remote struct {
	Cluster  string         `yaml:"cluster,omitempty"` // the remote cluster's ID
	Prefixes []RemotePrefix `yaml:"prefixes,omitempty"`
}

// RemotePrefix is one prefix of the remote cluster. CIDR and SeenAs have the same family and length; host bits are kept.
type RemotePrefix struct {
	CIDR   netip.Prefix `yaml:"cidr"`   // the prefix in the remote cluster
	SeenAs netip.Prefix `yaml:"seenAs"` // the prefix that this cluster uses for it
}

// Masquerade configures the additional sources, neither pods nor nodes, that may leave under the gateway's own external
// addresses, with one flow per connection.
type Masquerade struct {
	Sources        []netip.Prefix `yaml:"sources,omitempty,flow" accept:"address"` // empty: none
	Flows          int            `yaml:"flows,omitempty"`                         // at once, of all sources; 0: DefaultFlows
	FlowsPerSource int            `yaml:"flowsPerSource,omitempty"`                // at once, of one address; 0: a sixteenth of Flows
}

// Limits of the fields of Masquerade.
const (
	DefaultFlows = 65536
	MaxFlows     = 4 << 20
)

// Limits returns the maximum number of flows, in total and per source, with defaults applied.
func (m *Masquerade) Limits() (flows, perSource int) {
	flows, perSource = m.Flows, m.FlowsPerSource
	if flows == 0 {
		flows = DefaultFlows
	}
	if perSource == 0 {
		perSource = max(flows/16, 1)
	}
	return flows, perSource
}

// Mapping assigns an external address to a target outside of the pod network.
type Mapping struct {
	External netip.Addr `yaml:"external"`
	Target   netip.Addr `yaml:"target"`
}

// Proxy selects pods behind no node that the remote cluster reaches through sockets of the gateway: it terminates their
// connections and opens new ones to the same addresses and ports.
type Proxy struct {
	Prefixes []netip.Prefix `yaml:"prefixes,omitempty,flow"`                // within Local.Prefixes; empty: none
	Except   []netip.Prefix `yaml:"except,omitempty,flow" accept:"address"` // what is not reached, behind no node
}

// Protocol is a transport protocol.
type Protocol string

// The protocols.
const (
	TCP Protocol = "tcp"
	UDP Protocol = "udp"
)

// Forward is a port of the gateway's machine, or of its pod, whose connections go to targets in the remote cluster.
type Forward struct {
	Protocol Protocol         `yaml:"protocol"`
	Listen   ListenAddress    `yaml:"listen"`
	Targets  []netip.AddrPort `yaml:"targets,omitempty,flow"` // as this cluster sees them, in Remote.Prefixes[].SeenAs; empty: connections are refused
}

// Callers are the clients that may use forwards.
type Callers struct {
	Prefixes []netip.Prefix `yaml:"prefixes,omitempty,flow" accept:"address"` // empty: none
	Except   []netip.Prefix `yaml:"except,omitempty,flow" accept:"address"`
}

// MSSClamp is the MSS to which TCP connections are clamped. The zero value derives it from the MTU.
type MSSClamp struct {
	Off   bool
	Value uint16 // bytes of TCP payload, 536 to 65495; 0: derived from the MTU
}

// Observability configures where metrics and health are served.
type Observability struct {
	Listen ListenAddress `yaml:"listen"` // HTTP; zero: not served
}
