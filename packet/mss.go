package packet

import (
	"encoding/binary"
	"math/bits"
)

const (
	tcpOptionEnd    = 0
	tcpOptionNop    = 1
	tcpOptionMSS    = 2
	tcpOptionMSSLen = 4
)

// MSS returns the maximum segment size in bytes of TCP payload that a SYN or SYN-ACK
// announces (RFC 9293 section 3.7.1); the smallest if it announces several. ok is false
// for any other packet, for fragments, and without the option.
func MSS(b []byte, ip *IP) (mss uint16, ok bool) {
	u := synHeader(b, ip)
	for at := nextMSS(u, TCPHeaderLen); at != 0; at = nextMSS(u, at+2) {
		v := binary.BigEndian.Uint16(u[at:])
		if !ok || v < mss {
			mss, ok = v, true
		}
	}
	return mss, ok
}

// ClampMSS lowers the maximum segment size that a SYN or SYN-ACK announces to limit bytes
// of TCP payload, updates the TCP checksum, and reports whether it changed b. The checksum
// must be complete (see IsPartial). The value is never raised and the option never added.
// limit is the MTU minus 40 bytes for IPv4 and 60 for IPv6; TCP options do not count (RFC
// 6691 section 2).
func ClampMSS(b []byte, ip *IP, limit uint16) bool {
	u := synHeader(b, ip)
	changed := false
	// A receiver may use the first or the last of several options.
	for at := nextMSS(u, TCPHeaderLen); at != 0; at = nextMSS(u, at+2) {
		old := binary.BigEndian.Uint16(u[at:])
		if old <= limit {
			continue
		}
		binary.BigEndian.PutUint16(u[at:], limit)
		from, to := old, limit
		if at%2 != 0 {
			// The value straddles two checksum words: its high byte is the
			// low half of one, its low byte the high half of the next.
			from, to = bits.ReverseBytes16(old), bits.ReverseBytes16(limit)
		}
		sum := u[tcpChecksum:]
		binary.BigEndian.PutUint16(sum, Update(binary.BigEndian.Uint16(sum), DeltaOf(from, to)))
		changed = true
	}
	return changed
}

// synHeader returns the TCP header of a SYN or SYN-ACK, nil for anything else.
func synHeader(b []byte, ip *IP) []byte {
	n, ok := TCPHeaderOK(b, ip)
	if !ok {
		return nil
	}
	u := b[ip.Header:][:n]
	if u[tcpFlags]&TCPFlagSYN == 0 {
		return nil
	}
	return u
}

// nextMSS returns the offset of the value of the first MSS option in the TCP header u at
// or after offset at, 0 if there is none. Like a receiver, it stops at a malformed option.
func nextMSS(u []byte, at int) int {
	for at < len(u) && u[at] != tcpOptionEnd {
		if u[at] == tcpOptionNop {
			at++
			continue
		}
		if at+1 >= len(u) {
			return 0
		}
		size := int(u[at+1])
		if size < 2 || at+size > len(u) {
			return 0
		}
		if u[at] == tcpOptionMSS && size == tcpOptionMSSLen {
			return at + 2
		}
		at += size
	}
	return 0
}
