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

// nodeKey is what a frame must match to be accepted: what a kernel tunnel device
// itself demands of its one remote.
type nodeKey struct {
	underlay      netip.Addr
	vni           uint32
	encapsulation Encapsulation
}

func (n *Node) key() nodeKey { return nodeKey{n.Underlay, n.VNI, n.Encapsulation} }

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
