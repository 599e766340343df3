package packet

import "encoding/binary"

// Segments segments a TCP packet that its sender left to a network card to segment (TSO)
// into packets of at most mtu bytes, as the card would. Sequence numbers and IPv4 IDs
// increase; FIN and PSH stay on the last piece only; all other fields are copied, including
// IPv6 extension headers, the urgent pointer, and AE, CWR and ECE, which with AccECN are one
// counter (RFC 9768 section 3.2.2). For classic ECN see CWROnce. Every piece gets a full TCP
// checksum. The checksum in b is not read, so IsPartial must hold for b. A single piece is
// allowed.
//
// It reports false, with no piece left, for a packet that is longer than mtu and not
// Segmentable, and for one without a TCP header.
func (p *Pieces) Segments(b []byte, ip *IP, mtu int) bool {
	*p = Pieces{}
	tcp, ok := TCPHeaderOK(b, ip)
	if !ok || int(ip.Len) > mtu && !Segmentable(b, ip, mtu) {
		return false
	}
	upper := int(ip.Header)
	header := upper + tcp
	*p = Pieces{
		b: b[:ip.Len], at: header, mtu: mtu, kind: segment,
		header: header, upper: upper,
		pseudo: PseudoSum(ip.Src, ip.Dst, ProtoTCP, 0),
	}
	return true
}

// Segmentable reports whether Segments can cut b to mtu bytes: TCPHeaderOK holds, the headers
// leave room for payload, and b is neither a SYN nor an RST, which are one segment each.
func Segmentable(b []byte, ip *IP, mtu int) bool {
	tcp, ok := TCPHeaderOK(b, ip)
	upper := int(ip.Header)
	return ok && upper+tcp < mtu && b[upper+tcpFlags]&(TCPFlagSYN|TCPFlagRST) == 0
}

// CWROnce leaves CWR on the first segment only, as classic ECN requires (RFC 3168 section
// 6.1.2). It follows Segments.
func (p *Pieces) CWROnce() { p.cwrOnce = true }

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
	if p.cwrOnce && p.index > 0 {
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
