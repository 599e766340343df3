package gateway

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/vxlan"
)

// Encapsulation is how a node wraps the frames it exchanges with the gateway.
type Encapsulation uint8

// The encapsulations, both with inner Ethernet.
const (
	Geneve Encapsulation = iota // RFC 8926
	VXLAN                       // RFC 7348
)

// The lengths of what stands before an inner IP packet, behind the UDP header.
const (
	tunnelLen = 8 // Geneve without options and VXLAN alike
	// EncapLen is the tunnel header and the inner Ethernet header, bytes.
	EncapLen = tunnelLen + packet.EthernetHeaderLen
)

// Node is one node of this cluster as the data plane sees it. Immutable once its
// Table is published.
type Node struct {
	Name          string
	Underlay      netip.Addr // outer address of the node
	Encapsulation Encapsulation
	VNI           uint32

	// Handle belongs to whoever sends to the node, for instance a prebuilt
	// socket address. Nothing in this package reads it.
	Handle any

	mac    packet.MAC
	header [2][EncapLen]byte // for inner IPv4 and IPv6
}

// NodeKey is what a frame must match to be accepted: what a kernel tunnel device
// itself demands of its one remote.
type NodeKey struct {
	Underlay      netip.Addr
	VNI           uint32
	Encapsulation Encapsulation
}

// Outer is that of a frame which matches.
func (k NodeKey) Outer() Outer { return Outer{Source: k.Underlay, Encapsulation: k.Encapsulation} }

// Outer is what is known of a datagram that is not in it: what its socket says.
type Outer struct {
	Source        netip.Addr
	Encapsulation Encapsulation
	ECN           uint8 // of the outer IP header, RFC 3168 section 5
}

// Key is what the node's frames match.
func (n *Node) Key() NodeKey { return NodeKey{n.Underlay, n.VNI, n.Encapsulation} }

// fillHeaders prepares the headers that every frame to the node begins with.
func (n *Node) fillHeaders(gateway packet.MAC) {
	for i, etherType := range [...]uint16{packet.EtherTypeIPv4, packet.EtherTypeIPv6} {
		h := n.header[i][:]
		switch n.Encapsulation {
		case Geneve:
			geneve.Put(h, n.VNI)
		case VXLAN:
			vxlan.Put(h, n.VNI)
		}
		packet.PutEthernet(h[tunnelLen:], n.mac, gateway, etherType)
	}
}

// Header is what goes before an IP packet to the node: tunnel header and inner
// Ethernet header, EncapLen bytes that must not be changed.
func (n *Node) Header(ipVersion uint8) []byte {
	if ipVersion == 6 {
		return n.header[1][:]
	}
	return n.header[0][:]
}

// tunnelHeader is what goes before an Ethernet frame to the node.
func (n *Node) tunnelHeader() []byte { return n.header[0][:tunnelLen] }

// etherType reads the type of an Ethernet header.
func etherType(frame []byte) uint16 { return binary.BigEndian.Uint16(frame[12:]) }
