package tun

import (
	"encoding/binary"

	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// Probes of package link are the payload of UDP datagrams between link addresses.
const (
	probePort = 6093
	// probeSize is the least size of a probe's packet in bytes: WireGuard messages of that size have
	// priority over data.
	probeSize = underlay.ControlSize - device.MessageTransportSize
	// probeHeaders is the length of the headers of a probe's packet, bytes.
	probeHeaders = packet.IPv6HeaderLen + packet.UDPHeaderLen
)

// isProbe reports whether a valid IP packet from the tunnel goes to the port of probes, between the link's addresses. Probes
// have neither extension headers nor fragments. Their checksum is not checked: they are authenticated.
func (l *Link) isProbe(b []byte) bool {
	if len(b) < probeHeaders || b[0]>>4 != 6 || b[6] != packet.ProtoUDP || binary.BigEndian.Uint16(b[packet.IPv6HeaderLen+2:]) != probePort {
		return false
	}
	src, dst := addresses(b)
	return src == l.far && dst == l.own
}
