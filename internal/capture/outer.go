package capture

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/packet"
)

// maxOuter is the maximum length in bytes of the headers from appendOuter.
const maxOuter = packet.IPv6HeaderLen + packet.UDPHeaderLen

// outerTTL is the TTL of a reconstructed header, the default of Linux.
const outerTTL = 64

// appendOuter appends the IP and UDP headers of a datagram with the given payload length, reconstructed from what a socket
// reports. The UDP checksum is 0: valid over IPv4; for IPv6, sumOuter sets it. An unknown address is zero.
func appendOuter(b []byte, src, dst netip.AddrPort, payload int) []byte {
	udp := packet.UDPHeaderLen + payload
	if src.Addr().Is6() || dst.Addr().Is6() {
		from, to := as16(src.Addr()), as16(dst.Addr())
		b = append(b, 0x60, 0, 0, 0)
		b = binary.BigEndian.AppendUint16(b, clip(udp))
		b = append(b, packet.ProtoUDP, outerTTL)
		b = append(append(b, from[:]...), to[:]...)
	} else {
		from, to := as4(src.Addr()), as4(dst.Addr())
		at := len(b)
		b = append(b, 0x45, 0)
		b = binary.BigEndian.AppendUint16(b, clip(packet.IPv4HeaderLen+udp))
		b = append(b, 0, 0, 0, 0, outerTTL, packet.ProtoUDP, 0, 0)
		b = append(append(b, from[:]...), to[:]...)
		binary.BigEndian.PutUint16(b[at+10:], ^packet.Sum(b[at:], 0))
	}
	b = binary.BigEndian.AppendUint16(b, src.Port())
	b = binary.BigEndian.AppendUint16(b, dst.Port())
	b = binary.BigEndian.AppendUint16(b, clip(udp))
	return append(b, 0, 0)
}

// sumOuter sets the UDP checksum, which IPv6 requires, in a complete packet from appendOuter.
func sumOuter(b []byte) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone || ip.Version != 6 {
		return
	}
	if sum, ok := packet.UpperChecksum(b, &ip); ok {
		binary.BigEndian.PutUint16(ip.Upper(b)[6:], sum)
	}
}

// clip limits a length to 16 bits. No length from a socket exceeds that.
func clip(n int) uint16 { return uint16(min(n, packet.MaxLen)) }

func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}

func as16(a netip.Addr) (b [16]byte) {
	if a.Is6() {
		b = a.As16()
	}
	return b
}
