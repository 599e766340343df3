//go:build lab || nightly

package lab

import (
	"encoding/binary"
	"net/netip"
)

// Packet formats for captures and injected frames. They are separate from the product's
// code on purpose, so that a fault there is not hidden here.

const (
	protoICMP   = 1
	protoTCP    = 6
	protoUDP    = 17
	protoICMPv6 = 58
)

// ipPacket is a parsed IP packet.
type ipPacket struct {
	src, dst netip.Addr
	proto    byte
	hop      byte // TTL or hop limit
	total    int  // bytes, from its header
	payload  []byte
}

// ipOf parses the IP packet of an Ethernet frame, without extension headers.
func ipOf(frame []byte) (p ipPacket, ok bool) {
	if len(frame) < 14 {
		return p, false
	}
	return parseIP(frame[14:])
}

// parseIP parses an IP packet. It may be truncated, like quotes in ICMP errors.
func parseIP(b []byte) (p ipPacket, ok bool) {
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		header := int(b[0]&15) * 4
		if header < 20 || len(b) < header {
			return p, false
		}
		p = ipPacket{proto: b[9], hop: b[8], total: int(binary.BigEndian.Uint16(b[2:])), payload: b[header:]}
		p.src, _ = netip.AddrFromSlice(b[12:16])
		p.dst, _ = netip.AddrFromSlice(b[16:20])
	case len(b) >= 40 && b[0]>>4 == 6:
		p = ipPacket{proto: b[6], hop: b[7], total: 40 + int(binary.BigEndian.Uint16(b[4:])), payload: b[40:]}
		p.src, _ = netip.AddrFromSlice(b[8:24])
		p.dst, _ = netip.AddrFromSlice(b[24:40])
	default:
		return p, false
	}
	return p, true
}

// icmpError is an ICMP or ICMPv6 error message and the packet that it quotes.
type icmpError struct {
	ipPacket
	kind, code byte
	mtu        int // of fragmentation needed and packet too big
	quoted     ipPacket
}

// icmpErrorOf parses an ICMP error of an Ethernet frame.
func icmpErrorOf(frame []byte) (e icmpError, ok bool) {
	p, ok := ipOf(frame)
	if !ok || len(p.payload) < 8 || p.proto != protoICMP && p.proto != protoICMPv6 {
		return e, false
	}
	e = icmpError{ipPacket: p, kind: p.payload[0], code: p.payload[1]}
	switch {
	case p.proto == protoICMP && (e.kind == 3 || e.kind == 11): // unreachable, time exceeded
		e.mtu = int(binary.BigEndian.Uint16(p.payload[6:]))
	case p.proto == protoICMPv6 && e.kind < 128:
		e.mtu = int(binary.BigEndian.Uint32(p.payload[4:]))
	default:
		return e, false
	}
	e.quoted, ok = parseIP(p.payload[8:])
	return e, ok
}

// synMSS returns the MSS option of a SYN or SYN-ACK.
func synMSS(frame []byte) (p ipPacket, mss int, ok bool) {
	p, ok = ipOf(frame)
	if !ok || p.proto != protoTCP || len(p.payload) < 20 || p.payload[13]&2 == 0 {
		return p, 0, false
	}
	end := min(int(p.payload[12]>>4)*4, len(p.payload))
	for at := 20; at+1 < end; {
		kind, size := p.payload[at], int(p.payload[at+1])
		switch {
		case kind == 0:
			return p, 0, false
		case kind == 1:
			at++
		case size < 2:
			return p, 0, false
		case kind == 2 && size == 4 && at+4 <= end:
			return p, int(binary.BigEndian.Uint16(p.payload[at+2:])), true
		default:
			at += size
		}
	}
	return p, 0, false
}

// icmpKind matches frames with an ICMP error of that type and code.
func icmpKind(kind, code byte) func([]byte) bool {
	return func(frame []byte) bool {
		e, ok := icmpErrorOf(frame)
		return ok && e.kind == kind && e.code == code
	}
}

// onesSum returns the folded ones' complement sum of b, not inverted (RFC 1071).
func onesSum(start uint32, b []byte) uint16 {
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

// pseudoSum returns the sum of the pseudo-header, which a kernel stores in a partial
// checksum.
func (p ipPacket) pseudoSum(length int) uint16 {
	return onesSum(uint32(p.proto)+uint32(length), append(p.src.AsSlice(), p.dst.AsSlice()...))
}

// udp4 returns an IPv4 UDP packet with valid checksums.
func udp4(src, dst netip.Addr, port uint16, payload []byte) []byte {
	b := make([]byte, 28, 28+len(payload))
	b[0], b[8], b[9] = 0x45, 64, protoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(28+len(payload)))
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	binary.BigEndian.PutUint16(b[10:], ^onesSum(0, b[:20]))
	binary.BigEndian.PutUint16(b[20:], port)
	binary.BigEndian.PutUint16(b[22:], port)
	binary.BigEndian.PutUint16(b[24:], uint16(8+len(payload)))
	b = append(b, payload...)
	p, _ := parseIP(b)
	binary.BigEndian.PutUint16(b[26:], ^onesSum(uint32(p.pseudoSum(len(b)-20)), b[20:]))
	return b
}

// overlayFrame encapsulates an inner IPv4 packet like a node's kernel: inner Ethernet in
// Geneve or VXLAN, without the outer UDP.
func overlayFrame(encapsulation string, vni uint32, inner []byte) []byte {
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

// wireGuardType returns the type of the WireGuard message in an Ethernet frame, or 0.
func wireGuardType(frame []byte) byte {
	p, ok := ipOf(frame)
	if !ok || p.proto != protoUDP || len(p.payload) < 8+4 {
		return 0
	}
	return p.payload[8]
}

// ipHeader returns the length of an IP header without options of a's family.
func ipHeader(a netip.Addr) int {
	if a.Is4() {
		return 20
	}
	return 40
}

// edit overwrites bytes.
func edit(b []byte, at int, with ...byte) []byte {
	copy(b[at:], with)
	return b
}

// toPort matches UDP packets to a port.
func toPort(port uint16) func([]byte) bool {
	return func(frame []byte) bool {
		p, ok := ipOf(frame)
		return ok && p.proto == protoUDP && len(p.payload) >= 8 && binary.BigEndian.Uint16(p.payload[2:]) == port
	}
}
