package lab

import (
	"encoding/binary"
	"net/netip"
)

// Packets that no correct host sends. They are complete, so that only the intended fault is
// wrong.

// IP4 returns an IPv4 packet. Edits are applied before the header checksum is computed.
func IP4(src, dst netip.Addr, proto byte, payload []byte, edits ...func([]byte)) []byte {
	b := make([]byte, 20, 20+len(payload))
	b[0], b[8], b[9] = 0x45, 64, proto
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	b = append(b, payload...)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	for _, edit := range edits {
		edit(b)
	}
	Sum4(b)
	return b
}

// Sum4 sets the header checksum.
func Sum4(b []byte) {
	binary.BigEndian.PutUint16(b[10:], 0)
	binary.BigEndian.PutUint16(b[10:], ^OnesSum(0, b[:min(int(b[0]&15)*4, len(b))]))
}

// IP6 returns an IPv6 packet; payload starts with the header named by next.
func IP6(src, dst netip.Addr, next byte, payload []byte) []byte {
	b := make([]byte, 40, 40+len(payload))
	b[0], b[6], b[7] = 0x60, next, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(payload)))
	copy(b[8:], src.AsSlice())
	copy(b[24:], dst.AsSlice())
	return append(b, payload...)
}

// UDPTo returns a UDP packet of either family with valid checksums.
func UDPTo(src, dst netip.AddrPort, payload []byte) []byte {
	u := make([]byte, 8, 8+len(payload))
	binary.BigEndian.PutUint16(u, src.Port())
	binary.BigEndian.PutUint16(u[2:], dst.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(8+len(payload)))
	return transport(src.Addr(), dst.Addr(), ProtoUDP, append(u, payload...), 6)
}

// transport returns an IP packet around an upper-layer header whose checksum, at that
// offset, covers the pseudo-header.
func transport(src, dst netip.Addr, proto byte, upper []byte, checksum int) []byte {
	p := IPPacket{Src: src, Dst: dst, Proto: proto}
	sum := ^OnesSum(uint32(p.PseudoSum(len(upper))), upper)
	if sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(upper[checksum:], sum)
	if src.Is4() {
		return IP4(src, dst, proto, upper)
	}
	return IP6(src, dst, proto, upper)
}

// ICMP4 returns an ICMP message of IPv4 with a valid checksum.
func ICMP4(src, dst netip.Addr, kind, code byte, word uint32, body []byte) []byte {
	m := make([]byte, 8, 8+len(body))
	m[0], m[1] = kind, code
	binary.BigEndian.PutUint32(m[4:], word)
	m = append(m, body...)
	binary.BigEndian.PutUint16(m[2:], ^OnesSum(0, m))
	return IP4(src, dst, ProtoICMP, m)
}

// Fragment4 returns a fragment of an IPv4 datagram, at an offset in bytes.
func Fragment4(src, dst netip.Addr, proto byte, id uint16, offset int, more bool, payload []byte) []byte {
	return IP4(src, dst, proto, payload, func(b []byte) {
		binary.BigEndian.PutUint16(b[4:], id)
		word := uint16(offset / 8)
		if more {
			word |= 0x2000
		}
		binary.BigEndian.PutUint16(b[6:], word)
	})
}

// Fragment6 returns a fragment of an IPv6 datagram, RFC 8200 section 4.5.
func Fragment6(src, dst netip.Addr, proto byte, id uint32, offset int, more bool, payload []byte) []byte {
	h := make([]byte, 8, 8+len(payload))
	h[0] = proto
	word := uint16(offset &^ 7)
	if more {
		word |= 1
	}
	binary.BigEndian.PutUint16(h[2:], word)
	binary.BigEndian.PutUint32(h[4:], id)
	return IP6(src, dst, 44, append(h, payload...))
}

// FrameOf encapsulates an inner packet of either family for the gateway, without the outer
// UDP.
func FrameOf(encapsulation string, vni uint32, inner []byte) []byte {
	b := OverlayFrame(encapsulation, vni, inner)
	if len(inner) > 0 && inner[0]>>4 == 6 {
		b[8+12], b[8+13] = 0x86, 0xdd
	}
	return b
}
