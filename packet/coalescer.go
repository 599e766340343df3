package packet

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// Coalescer joins TCP packets of a flow that follow one another into one packet with the payload of all, the inverse of
// Segments, as a network card does for its host (GRO):
//
//	ok := c.Start(b, &ip)
//	payload, ok := c.Append(b, &ip) // of the next packets
//	head := c.End()
//
// The joined packet is head followed by what Append returned. Its checksum is computed from those of the packets, not
// from their payload, so the receiver has to verify it: it is correct if and only if those of the packets are, apart from
// errors that cancel each other out.
//
// Coalescer borrows the packet of Start until End, which changes its headers. The zero value is ready for use. Not for
// concurrent use.
type Coalescer struct {
	b       []byte // the packet of Start; nil = none
	upper   int    // offset of its TCP header
	header  int    // offset of its payload
	size    int    // payload of each packet but the last, bytes
	payload int    // of all packets, bytes
	sum     Delta  // of the payload that Append returned
	flags   byte   // of the last packet
}

// Start makes b the first packet and discards the previous ones. It reports false if no other packet can be joined to b:
// it is no TCP packet, has no payload, IPv4 options, IPv6 extension headers, or a flag other than ACK.
func (c *Coalescer) Start(b []byte, ip *IP) bool {
	*c = Coalescer{}
	upper, header, ok := plainTCP(b, ip)
	if !ok || b[upper+tcpFlags] != TCPFlagACK {
		return false
	}
	n := int(ip.Len) - header
	*c = Coalescer{b: b[:ip.Len], upper: upper, header: header, size: n, payload: n, flags: TCPFlagACK}
	return true
}

// Started reports whether End will return a packet.
func (c *Coalescer) Started() bool { return c.b != nil }

// plainTCP returns the offsets in b of the TCP header and of the payload. ok is false if there is no payload, or if the IP
// header has options or extension headers.
func plainTCP(b []byte, ip *IP) (upper, header int, ok bool) {
	tcp, ok := TCPHeaderOK(b, ip)
	upper = int(ip.Header)
	header = upper + tcp
	plain := IPv4HeaderLen
	if ip.Version == 6 {
		plain = IPv6HeaderLen
	}
	return upper, header, ok && upper == plain && header < int(ip.Len)
}

// Append joins b and returns its payload, if b continues the packets so far: the flow, the next sequence number, the same
// headers apart from the IPv4 ID, no more payload than the first, and flags ACK, PSH and FIN only. A packet with PSH, FIN
// or less payload is the last.
func (c *Coalescer) Append(b []byte, ip *IP) (payload []byte, ok bool) {
	if c.b == nil || c.flags != TCPFlagACK || c.payload%c.size != 0 {
		return nil, false
	}
	upper, header, ok := plainTCP(b, ip)
	n := int(ip.Len) - header
	if !ok || header != c.header || n > c.size || header+c.payload+n > MaxLen || !c.sameHeaders(b, upper, header) {
		return nil, false
	}
	u := b[upper:header]
	sum := ^Sum(u, PseudoSum(ip.Src, ip.Dst, ProtoTCP, len(u)+n)) // of the payload, if the checksum is correct
	if c.payload%2 == 1 {
		sum = bits.ReverseBytes16(sum) // RFC 1071 section 2 (B)
	}
	c.sum = c.sum.Plus(Delta(sum))
	c.payload += n
	c.flags = u[tcpFlags]
	return b[header:ip.Len], true
}

// sameHeaders reports whether the headers of b continue those of the first packet.
func (c *Coalescer) sameHeaders(b []byte, upper, header int) bool {
	same := func(from, to int) bool { return bytes.Equal(b[from:to], c.b[from:to]) }
	if b[0] != c.b[0] {
		return false
	}
	if upper == IPv4HeaderLen { // not its length, ID and checksum
		if !same(1, 2) || !same(6, 10) || !same(12, upper) {
			return false
		}
	} else if !same(1, 4) || !same(6, upper) { // not its length
		return false
	}
	u, first := b[upper:header], c.b[upper:c.header]
	return same(upper, upper+tcpSequence) &&
		binary.BigEndian.Uint32(u[tcpSequence:]) == binary.BigEndian.Uint32(first[tcpSequence:])+uint32(c.payload) &&
		same(upper+tcpAck, upper+tcpFlags) &&
		u[tcpFlags]&^(TCPFlagPSH|TCPFlagFIN) == TCPFlagACK &&
		same(upper+tcpWindow, upper+tcpChecksum) &&
		same(upper+tcpUrgent, header)
}

// End returns the packet of Start, with headers for the payload of all packets, and forgets it. nil = there is none.
func (c *Coalescer) End() []byte {
	b := c.b
	if b == nil || c.payload == c.size {
		c.b = nil
		return b
	}
	more := c.payload - c.size
	u := b[c.upper:c.header]
	sum := c.sum
	sum = sum.Plus(DeltaOf(uint16(len(b)-c.upper), uint16(len(b)-c.upper+more))) // of the pseudo-header
	sum = sum.Plus(DeltaOf(uint16(u[tcpFlags]), uint16(c.flags)))
	u[tcpFlags] = c.flags
	binary.BigEndian.PutUint16(u[tcpChecksum:], Update(binary.BigEndian.Uint16(u[tcpChecksum:]), sum))
	if c.upper == IPv4HeaderLen {
		length, checksum := b[2:4], b[10:12]
		total := uint16(len(b) + more)
		d := DeltaOf(binary.BigEndian.Uint16(length), total)
		binary.BigEndian.PutUint16(length, total)
		binary.BigEndian.PutUint16(checksum, Update(binary.BigEndian.Uint16(checksum), d))
	} else {
		binary.BigEndian.PutUint16(b[4:6], uint16(len(b)+more-IPv6HeaderLen))
	}
	c.b = nil
	return b
}
