package lab

import (
	"encoding/binary"
	"net/netip"
)

// Packet formats for captures and injected frames. They are separate from the product's
// code on purpose, so that a fault there is not hidden here.

// Protocol numbers.
const (
	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58
)

// IPPacket is a parsed IP packet.
type IPPacket struct {
	Src, Dst netip.Addr
	Proto    byte
	Hop      byte // TTL or hop limit
	Total    int  // bytes, from its header
	Payload  []byte
}

// IPOf parses the IP packet of an Ethernet frame, without extension headers.
func IPOf(frame []byte) (p IPPacket, ok bool) {
	if len(frame) < 14 {
		return p, false
	}
	return ParseIP(frame[14:])
}

// ParseIP parses an IP packet. It may be truncated, like quotes in ICMP errors.
func ParseIP(b []byte) (p IPPacket, ok bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		header := int(b[0]&15) * 4
		if header < 20 || len(b) < header {
			return p, false
		}
		p = IPPacket{Proto: b[9], Hop: b[8], Total: int(binary.BigEndian.Uint16(b[2:])), Payload: b[header:]}
		p.Src, _ = netip.AddrFromSlice(b[12:16])
		p.Dst, _ = netip.AddrFromSlice(b[16:20])
	case len(b) >= 40 && b[0]>>4 == 6:
		p = IPPacket{Proto: b[6], Hop: b[7], Total: 40 + int(binary.BigEndian.Uint16(b[4:])), Payload: b[40:]}
		p.Src, _ = netip.AddrFromSlice(b[8:24])
		p.Dst, _ = netip.AddrFromSlice(b[24:40])
	default:
		return p, false
	}
	return p, true
}

// ICMPError is an ICMP or ICMPv6 error message and the packet that it quotes.
type ICMPError struct {
	IPPacket
	Kind, Code byte
	MTU        int // of fragmentation needed and packet too big
	Quoted     IPPacket
}

// ICMPErrorOf parses an ICMP error of an Ethernet frame.
func ICMPErrorOf(frame []byte) (e ICMPError, ok bool) {
	p, ok := IPOf(frame)
	if !ok || len(p.Payload) < 8 || p.Proto != ProtoICMP && p.Proto != ProtoICMPv6 {
		return e, false
	}
	e = ICMPError{IPPacket: p, Kind: p.Payload[0], Code: p.Payload[1]}
	switch {
	case p.Proto == ProtoICMP && (e.Kind == 3 || e.Kind == 11): // unreachable, time exceeded
		e.MTU = int(binary.BigEndian.Uint16(p.Payload[6:]))
	case p.Proto == ProtoICMPv6 && e.Kind < 128:
		e.MTU = int(binary.BigEndian.Uint32(p.Payload[4:]))
	default:
		return e, false
	}
	e.Quoted, ok = ParseIP(p.Payload[8:])
	return e, ok
}

// SYNMSS returns the MSS option of a SYN or SYN-ACK.
func SYNMSS(frame []byte) (p IPPacket, mss int, ok bool) {
	p, ok = IPOf(frame)
	if !ok || p.Proto != ProtoTCP || len(p.Payload) < 20 || p.Payload[13]&2 == 0 {
		return p, 0, false
	}
	end := min(int(p.Payload[12]>>4)*4, len(p.Payload))
	for at := 20; at+1 < end; {
		kind, size := p.Payload[at], int(p.Payload[at+1])
		switch {
		case kind == 0:
			return p, 0, false
		case kind == 1:
			at++
		case size < 2:
			return p, 0, false
		case kind == 2 && size == 4 && at+4 <= end:
			return p, int(binary.BigEndian.Uint16(p.Payload[at+2:])), true
		default:
			at += size
		}
	}
	return p, 0, false
}

// ICMPKind matches frames with an ICMP error of that type and code.
func ICMPKind(kind, code byte) func([]byte) bool {
	return func(frame []byte) bool {
		e, ok := ICMPErrorOf(frame)
		return ok && e.Kind == kind && e.Code == code
	}
}

// OnesSum returns the folded ones' complement sum of b, not inverted (RFC 1071).
func OnesSum(start uint32, b []byte) uint16 {
	for ; len(b) > 1; b = b[2:] {
		start += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		start += uint32(b[0]) << 8
	}
	for start > 0xffff {
		start = start>>16 + start&0xffff
	}
	return uint16(start)
}

// PseudoSum returns the sum of the pseudo-header, which a kernel stores in a partial
// checksum.
func (p IPPacket) PseudoSum(length int) uint16 {
	return OnesSum(uint32(p.Proto)+uint32(length), append(p.Src.AsSlice(), p.Dst.AsSlice()...))
}

// UDP4 returns an IPv4 UDP packet with valid checksums.
func UDP4(src, dst netip.Addr, port uint16, payload []byte) []byte {
	b := make([]byte, 28, 28+len(payload))
	b[0], b[8], b[9] = 0x45, 64, ProtoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(payload)))
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], ^OnesSum(0, b[:20]))
	binary.BigEndian.PutUint16(b[20:], port)
	binary.BigEndian.PutUint16(b[22:], port)
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(payload)))
	b = append(b, payload...)
	p, _ := ParseIP(b)
	binary.BigEndian.PutUint16(b[26:], ^OnesSum(uint32(p.PseudoSum(len(b)-20)), b[20:]))
	return b
}

// OverlayFrame encapsulates an inner IPv4 packet like a node's kernel: inner Ethernet in
// Geneve or VXLAN, without the outer UDP.
func OverlayFrame(encapsulation string, vni uint32, inner []byte) []byte {
	header := []byte{0, 0, 0x65, 0x58, 0, 0, 0, 0} // RFC 8926: no options, Ethernet inside
	if encapsulation == "vxlan" {
		header = []byte{8, 0, 0, 0, 0, 0, 0, 0} // RFC 7348: the VNI is valid
	}
	binary.BigEndian.PutUint32(header[4:], vni<<8)
	ethernet := []byte{
		0x0a, 0x58, 10, 80, 0, 1, // to the gateway
		0x0a, 0x58, 10, 80, 0, 11, // from the node
		8, 0,
	}
	return append(append(header, ethernet...), inner...)
}

// WireGuardType returns the type of the WireGuard message in an Ethernet frame, or 0.
func WireGuardType(frame []byte) byte {
	p, ok := IPOf(frame)
	if !ok || p.Proto != ProtoUDP || len(p.Payload) < 8+4 {
		return 0
	}
	return p.Payload[8]
}

// IPHeader returns the length of an IP header without options of a's family.
func IPHeader(a netip.Addr) int {
	if a.Is4() {
		return 20
	}
	return 40
}

// Edit overwrites bytes.
func Edit(b []byte, at int, with ...byte) []byte {
	copy(b[at:], with)
	return b
}

// ToPort matches UDP packets to a port.
func ToPort(port uint16) func([]byte) bool {
	return func(frame []byte) bool {
		p, ok := IPOf(frame)
		return ok && p.Proto == ProtoUDP && len(p.Payload) >= 8 && binary.BigEndian.Uint16(p.Payload[2:]) == port
	}
}
