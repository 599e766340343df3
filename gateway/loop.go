package gateway

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// Tunnel identifies the gateway's own WireGuard datagrams: its addresses on the machine, and
// their UDP source port, 0 if any.
type Tunnel struct {
	Addresses []netip.Addr
	Port      uint16
}

// KeepOut makes the table drop datagrams of the gateway's own tunnel that a node sends back. If
// the route to the peer leads into the tunnel, each datagram would be encapsulated again and
// again. Call it before the table is used.
func (t *Table) KeepOut(own Tunnel) {
	t.tunnelPort = own.Port
	t.tunnelFrom = make(map[netip.Addr]struct{}, len(own.Addresses))
	for _, a := range own.Addresses {
		t.tunnelFrom[a.Unmap().WithZone("")] = struct{}{}
	}
}

// isOwnTunnel reports whether a packet is a datagram of the gateway's own tunnel.
func (t *Table) isOwnTunnel(b []byte, ip *packet.IP) bool {
	u := ip.Upper(b)
	if ip.Proto != packet.ProtoUDP || len(u) < packet.UDPHeaderLen+4 {
		return false
	}
	if _, own := t.tunnelFrom[ip.Src]; !own {
		return false
	}
	if t.tunnelPort != 0 {
		return binary.BigEndian.Uint16(u) == t.tunnelPort
	}
	// The type of a WireGuard message and three reserved bytes, WireGuard paper section 5.4.
	kind := binary.LittleEndian.Uint32(u[packet.UDPHeaderLen:])
	return kind >= 1 && kind <= 4
}
