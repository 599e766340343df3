package gateway

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/vxlan"
)

// Encapsulation is the encapsulation between a node and the gateway.
type Encapsulation uint8

// The encapsulations. Both carry Ethernet frames.
const (
	Geneve Encapsulation = iota // RFC 8926
	VXLAN                       // RFC 7348
)

// Lengths of the headers between the outer UDP header and an inner IP packet.
const (
	tunnelLen = 8 // Geneve without options and VXLAN alike
	// EncapLen is the tunnel header and the inner Ethernet header, bytes.
	EncapLen = tunnelLen + packet.EthernetHeaderLen
)

// Node is one node of this cluster in the data plane. Immutable once its Table is published,
// except for its budgets and its last probe.
type Node struct {
	Name          string
	Underlay      netip.Addr // outer address of the node
	Encapsulation Encapsulation
	VNI           uint32

	// Handle belongs to the caller that sends to the node, for example a prebuilt socket
	// address. This package does not read it.
	Handle any

	mac    packet.MAC
	header [2][EncapLen]byte // for inner IPv4 and IPv6

	budgets budgets
	probed  lastProbe
}

// NodeKey must match a frame for the frame to be accepted. A kernel tunnel device checks the
// same for its one remote.
type NodeKey struct {
	Underlay      netip.Addr
	VNI           uint32
	Encapsulation Encapsulation
}

// Outer returns the Outer of a frame that matches k.
func (k NodeKey) Outer() Outer { return Outer{Source: k.Underlay, Encapsulation: k.Encapsulation} }

// Outer describes a received datagram, as reported by its socket.
type Outer struct {
	Source        netip.Addr
	Encapsulation Encapsulation
	ECN           uint8 // of the outer IP header, RFC 3168 section 5
}

// Key returns the key that frames of the node must match.
func (n *Node) Key() NodeKey { return NodeKey{n.Underlay, n.VNI, n.Encapsulation} }

// fillHeaders prepares the headers of all frames to the node.
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

// Header returns the headers in front of an IP packet to the node: tunnel header and inner
// Ethernet header, EncapLen bytes that must not be changed.
func (n *Node) Header(ipVersion uint8) []byte {
	if ipVersion == 6 {
		return n.header[1][:]
	}
	return n.header[0][:]
}

// tunnelHeader returns the header in front of an Ethernet frame to the node.
func (n *Node) tunnelHeader() []byte { return n.header[0][:tunnelLen] }

// etherType returns the type in an Ethernet header.
func etherType(frame []byte) uint16 { return binary.BigEndian.Uint16(frame[12:]) }
