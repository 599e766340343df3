package packet

import (
	"encoding/binary"
	"net/netip"
)

// UDPChecksumOK reports whether the checksum of an unfragmented UDP datagram is right, or
// left out (IPv4), or left to a network card (see IsPartial), and whether its length is that
// of the packet.
func UDPChecksumOK(b []byte, ip *IP) bool {
	u := ip.Upper(b)
	if len(u) < UDPHeaderLen || int(binary.BigEndian.Uint16(u[4:])) != len(u) {
		return false
	}
	checksum, ok := UpperChecksum(b, ip)
	field := binary.BigEndian.Uint16(u[6:])
	return ok && (field == checksum || field == 0 && ip.Version == 4 || IsPartial(b, ip))
}

// AppendUDP appends an IP packet with a UDP datagram to dst. Both ends are of the same
// family. payload must not overlap dst.
func AppendUDP(dst []byte, from, to netip.AddrPort, payload []byte) []byte {
	const ttl = 64
	length := UDPHeaderLen + len(payload)
	if from.Addr().Is4() {
		dst = appendIPv4(dst, 0, length, ProtoUDP, ttl, from.Addr(), to.Addr())
	} else {
		dst = appendIPv6(dst, 0, length, ProtoUDP, ttl, from.Addr(), to.Addr())
	}
	datagram := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, from.Port())
	dst = binary.BigEndian.AppendUint16(dst, to.Port())
	dst = binary.BigEndian.AppendUint16(dst, uint16(length))
	dst = append(append(dst, 0, 0), payload...)
	sum := ^Sum(dst[datagram:], PseudoSum(from.Addr(), to.Addr(), ProtoUDP, length))
	if sum == 0 {
		sum = 0xffff // 0 would mean that there is none, RFC 768
	}
	binary.BigEndian.PutUint16(dst[datagram+6:], sum)
	return dst
}
