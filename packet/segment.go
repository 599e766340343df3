package packet

import "encoding/binary"

// Segments segments a TCP packet that its sender left to a network card to segment (TSO)
// into packets of at most mtu bytes, as the card would. Sequence numbers and IPv4 IDs
// increase; FIN and PSH stay on the last piece only, CWR on the first only (RFC 3168 section
// 6.1.2: once per window); all other fields are copied, including IPv6 extension headers and
// the urgent pointer. Every piece gets a full TCP checksum. The checksum in b is not read, so
// IsPartial must hold for b. A single piece is allowed.
//
// It reports false, with no piece left, for a packet that cannot be segmented: TCPHeaderOK
// does not hold, the headers leave no payload within mtu, or a SYN or RST is too long for
// one piece.
func (p *Pieces) Segments(b []byte, ip *IP, mtu int) bool {
	*p = Pieces{}
	tcp, ok := TCPHeaderOK(b, ip)
	if !ok {
		return false
	}
	upper := int(ip.Header)
	header := upper + tcp
	if int(ip.Len) > mtu && (header >= mtu || b[upper+tcpFlags]&(TCPFlagSYN|TCPFlagRST) != 0) {
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
		u[tcpFlags] &^= TCPFlagCWR
	}
	if !last {
		u[tcpFlags] &^= TCPFlagFIN | TCPFlagPSH
	}
	u[tcpChecksum], u[tcpChecksum+1] = 0, 0
	sum := Sum(u, Add(p.pseudo, uint16(len(u))))
	binary.BigEndian.PutUint16(u[tcpChecksum:], ^sum)

	p.advance(len(payload))
	return n
}
