package packet

import "encoding/binary"

// Flags in byte 13 of the TCP header, RFC 9293 section 3.1.
const (
	tcpFIN = 0x01
	tcpSYN = 0x02
	tcpRST = 0x04
	tcpPSH = 0x08
	tcpCWR = 0x80
)

// Offsets in the TCP header.
const (
	tcpSequence = 4
	tcpOffset   = 12 // data offset in 4-byte words, high half of the byte
	tcpFlags    = 13
	tcpChecksum = 16
)

// TCPHeaderOK returns the length in bytes of the TCP header of b, options
// included. ok is false when b is not TCP, is a fragment, or when its data
// offset is below 20 bytes or beyond the packet.
func TCPHeaderOK(b []byte, ip *IP) (headerLen int, ok bool) {
	if ip.Proto != ProtoTCP || ip.Fragment != Unfragmented {
		return 0, false
	}
	u := ip.Upper(b)
	if len(u) < TCPHeaderLen {
		return 0, false
	}
	n := int(u[tcpOffset]>>4) * 4
	return n, n >= TCPHeaderLen && n <= len(u)
}

// Segments cuts a TCP packet that its sender left to a network card to segment
// into packets of at most mtu bytes, as the card would have done. Sequence
// numbers and IPv4 IDs advance; FIN and PSH stay on the last piece only, CWR on
// the first only (RFC 3168 section 6.1.2: once per window); all else is copied,
// IPv6 extension headers and the urgent pointer too. Every piece gets its full
// TCP checksum: the one in b is not read, so call it only for a packet for
// which IsPartial holds. One piece is fine.
//
// It reports false, with nothing left, for what cannot be cut like that: a
// packet for which TCPHeaderOK does not hold, headers that leave no room within
// mtu, a SYN or RST too long for one piece.
func (p *Pieces) Segments(b []byte, ip *IP, mtu int) bool {
	*p = Pieces{}
	tcp, ok := TCPHeaderOK(b, ip)
	if !ok {
		return false
	}
	upper := int(ip.Header)
	header := upper + tcp
	if int(ip.Len) > mtu && (header >= mtu || b[upper+tcpFlags]&(tcpSYN|tcpRST) != 0) {
		return false
	}
	*p = Pieces{
		b: b[:ip.Len], at: header, mtu: mtu, kind: segment,
		header: header, upper: upper,
		pseudo: PseudoSum(ip.Src, ip.Dst, ProtoTCP, 0),
	}
	return true
}

func (p *Pieces) nextSegment(dst []byte) int {
	b, at := p.b, p.at
	payload := b[at:]
	last := len(payload) <= p.mtu-p.header
	if !last {
		payload = payload[:p.mtu-p.header]
	}
	n := p.header + len(payload)
	dst = dst[:n]
	p.copyHeaders(dst)
	copy(dst[p.header:], payload)

	u := dst[p.upper:]
	binary.BigEndian.PutUint32(u[tcpSequence:], binary.BigEndian.Uint32(u[tcpSequence:])+uint32(at-p.header))
	if p.index > 0 {
		u[tcpFlags] &^= tcpCWR
	}
	if !last {
		u[tcpFlags] &^= tcpFIN | tcpPSH
	}
	u[tcpChecksum], u[tcpChecksum+1] = 0, 0
	sum := Sum(u, Add(p.pseudo, uint16(len(u))))
	binary.BigEndian.PutUint16(u[tcpChecksum:], ^sum)

	p.advance(len(payload))
	return n
}
