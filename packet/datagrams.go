package packet

import "encoding/binary"

const udpLength, udpChecksum = 4, 6

// Datagrams segments a UDP packet that its sender left to a network card to segment
// (UDP_SEGMENT) into packets with size bytes of UDP payload each; the last may have fewer.
// IPv4 IDs increase, all other fields are copied. Every piece gets a full UDP checksum;
// the checksum in b is not read.
//
// It reports false, with no piece left, unless b is an unfragmented UDP packet with
// payload and size is at least 1.
func (p *Pieces) Datagrams(b []byte, ip *IP, size int) bool {
	*p = Pieces{}
	header := int(ip.Header) + UDPHeaderLen
	if ip.Proto != ProtoUDP || ip.Fragment != Unfragmented || header >= int(ip.Len) || size < 1 {
		return false
	}
	*p = Pieces{
		b: b[:ip.Len], at: header, mtu: header + size, kind: datagram,
		header: header, upper: int(ip.Header),
		pseudo: PseudoSum(ip.Src, ip.Dst, ProtoUDP, 0),
	}
	return true
}

func (p *Pieces) nextDatagram(dst []byte) int {
	payload := p.b[p.at:]
	payload = payload[:min(len(payload), p.mtu-p.header)]
	dst = dst[:p.header+len(payload)]
	p.copyHeaders(dst)
	copy(dst[p.header:], payload)

	u := dst[p.upper:]
	binary.BigEndian.PutUint16(u[udpLength:], uint16(len(u)))
	u[udpChecksum], u[udpChecksum+1] = 0, 0
	sum := ^Sum(u, Add(p.pseudo, uint16(len(u))))
	if sum == 0 {
		sum = 0xffff // 0 means "none", RFC 768
	}
	binary.BigEndian.PutUint16(u[udpChecksum:], sum)

	p.advance(len(payload))
	return len(dst)
}

// copyHeaders writes the headers of the next segment or datagram to dst, with the IP
// length and ID of that piece.
func (p *Pieces) copyHeaders(dst []byte) {
	copy(dst, p.b[:p.header])
	if dst[0]>>4 == 4 {
		binary.BigEndian.PutUint16(dst[2:], uint16(len(dst)))
		binary.BigEndian.PutUint16(dst[4:], binary.BigEndian.Uint16(p.b[4:])+p.index)
		putIPv4Checksum(dst[:p.upper])
		return
	}
	binary.BigEndian.PutUint16(dst[4:], uint16(len(dst)-IPv6HeaderLen))
}

// advance moves on to the next segment or datagram.
func (p *Pieces) advance(payload int) {
	p.at += payload
	p.index++
	if p.at >= len(p.b) {
		p.b = nil
	}
}
