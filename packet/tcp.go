package packet

// TCP flags, byte 13 of the TCP header (RFC 9293 section 3.1).
const (
	TCPFlagFIN = 0x01
	TCPFlagSYN = 0x02
	TCPFlagRST = 0x04
	TCPFlagPSH = 0x08
	TCPFlagACK = 0x10
	TCPFlagECE = 0x40 // RFC 3168 section 6.1
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

const tcpFlagAE = 0x01 // in the byte at tcpOffset, RFC 9768 section 3.1

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

// IsSYN reports whether b opens or accepts a TCP connection (RFC 9293 section 3.5).
func IsSYN(b []byte, ip *IP) bool { return synHeader(b, ip) != nil }

// NegotiatesClassicECN reports whether a SYN or SYN-ACK negotiates classic ECN: CWR and ECE in
// a SYN, only ECE in a SYN-ACK (RFC 3168 section 6.1.1). AccECN uses all other combinations
// (RFC 9768 section 3.1.1).
func NegotiatesClassicECN(b []byte, ip *IP) bool {
	u := synHeader(b, ip)
	if u == nil || u[tcpOffset]&tcpFlagAE != 0 {
		return false
	}
	want := uint8(TCPFlagCWR | TCPFlagECE)
	if u[tcpFlags]&TCPFlagACK != 0 {
		want = TCPFlagECE
	}
	return u[tcpFlags]&(TCPFlagCWR|TCPFlagECE) == want
}

// IsSYNACK reports whether b accepts a TCP connection (RFC 9293 section 3.5).
func IsSYNACK(b []byte, ip *IP) bool {
	u := synHeader(b, ip)
	return u != nil && u[tcpFlags]&TCPFlagACK != 0
}
