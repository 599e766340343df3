package gateway

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// Tunnel is what the gateway's own WireGuard datagrams can be known by: its addresses on
// the machine, and the UDP port that they leave from, 0 if any.
type Tunnel struct {
	Addresses []netip.Addr
	Port      uint16
}

// KeepOut makes the table drop datagrams of the gateway's own tunnel that come back from
// a node: when the route to the peer leads into the tunnel, each would be wrapped again,
// and grow until its fragments circled for ever. It is called before the table is used.
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
