//go:build linux

package endpoint

import (
	"encoding/binary"

	"strait.dev/strait/packet"
)

const icmpHeaderLen = 8

// echoRequest returns an ICMP echo request (RFC 792, RFC 4443) with the payload. The kernel
// sets the identifier of ping sockets; the nonce in the payload distinguishes requests.
func echoRequest(v6 bool, nonce uint64, payload []byte) []byte {
	b := make([]byte, icmpHeaderLen, icmpHeaderLen+len(payload))
	b[0] = 8
	if v6 {
		b[0] = 128
	}
	binary.BigEndian.PutUint32(b[4:], uint32(nonce))
	b = append(b, payload...)
	if !v6 { // for ICMPv6 the kernel does this, because its checksum covers the addresses
		binary.BigEndian.PutUint16(b[2:], ^packet.Sum(b, 0))
	}
	return b
}

// echoReply returns the payload of an echo reply, and its nonce. Raw sockets return the
// IPv4 header as well.
func echoReply(v6, raw bool, b []byte) (payload []byte, nonce uint64, ok bool) {
	if raw && !v6 {
		if len(b) < 20 || len(b) < int(b[0]&0xf)*4 {
			return nil, 0, false
		}
		b = b[int(b[0]&0xf)*4:]
	}
	kind := byte(0)
	if v6 {
		kind = 129
	}
	if len(b) < icmpHeaderLen+headLen || b[0] != kind || [4]byte(b[icmpHeaderLen:]) != request {
		return nil, 0, false
	}
	payload = b[icmpHeaderLen:]
	return payload, binary.BigEndian.Uint64(payload[24:]), true
}
