package packet

// TCP flags, byte 13 of the TCP header (RFC 9293 section 3.1).
const (
	TCPFlagFIN = 0x01
	TCPFlagSYN = 0x02
	TCPFlagRST = 0x04
	TCPFlagPSH = 0x08
	TCPFlagACK = 0x10
	TCPFlagCWR = 0x80
)

// Offsets in the TCP header.
const (
	tcpSequence = 4
	tcpAck      = 8
	tcpOffset   = 12 // data offset in 4-byte words, high half of the byte
	tcpFlags    = 13
	tcpWindow   = 14
	tcpChecksum = 16
	tcpUrgent   = 18
)

// TCPHeaderOK returns the length in bytes of the TCP header of b, options included. ok is
// false when b is not TCP, is a fragment, or when its data offset is below 20 bytes or
// beyond the packet.
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

// IsSYNACK reports whether b accepts a TCP connection (RFC 9293 section 3.5).
func IsSYNACK(b []byte, ip *IP) bool {
	u := synHeader(b, ip)
	return u != nil && u[tcpFlags]&TCPFlagACK != 0
}
