package capture

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// View contains the fields that a filter tests.
type View struct {
	Src, Dst         netip.Addr
	SrcPort, DstPort uint16
	HasPorts         bool // also false for later fragments, which have none
	Version          uint8
	Proto            uint8 // upper-layer protocol
	Len              int   // of the IP packet, bytes
}

// viewOf parses an IP packet. ok is false if it is malformed.
func viewOf(b []byte) (v View, ok bool) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone {
		return v, false
	}
	v = View{Src: ip.Src, Dst: ip.Dst, Version: ip.Version, Proto: ip.Proto, Len: int(ip.Len)}
	switch ip.Proto {
	case packet.ProtoTCP, packet.ProtoUDP, packet.ProtoUDPLite, packet.ProtoSCTP, packet.ProtoDCCP:
		if u := ip.Upper(b); len(u) >= 4 {
			v.SrcPort, v.DstPort, v.HasPorts = binary.BigEndian.Uint16(u), binary.BigEndian.Uint16(u[2:]), true
		}
	}
	return v, true
}

// viewOfDatagram returns the view of a UDP datagram with the given payload length, without extension headers or options.
func viewOfDatagram(src, dst netip.AddrPort, payload int) View {
	v := View{
		Src: src.Addr(), Dst: dst.Addr(), SrcPort: src.Port(), DstPort: dst.Port(), HasPorts: true,
		Version: 4, Proto: packet.ProtoUDP, Len: packet.IPv4HeaderLen + packet.UDPHeaderLen + payload,
	}
	if dst.Addr().Is6() {
		v.Version, v.Len = 6, packet.IPv6HeaderLen+packet.UDPHeaderLen+payload
	}
	return v
}
