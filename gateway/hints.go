package gateway

import (
	"encoding/binary"
	"sync/atomic"

	"strait.dev/strait/packet"
)

// segmentHints caches, for some flows, the largest packet that the far end of a TCP connection
// accepts: from the MSS that it announced, and from packet-too-big errors about the flow.
//
// It exists for one case. A kernel tunnel device on the gateway's own machine hands over TCP
// unsegmented, without the segment size that the sender intended. Segmenting to the tunnel's
// MTU is correct unless the far end accepts less; then the sender would never learn why its
// packets are lost. It is a cache, not flow state: a lost or overwritten hint has no other
// consequence.
//
// Ingress writes it on SYNs and errors, Egress reads it for super-packets. No lock is needed:
// a slot is one word, with the flow's hash in the high half and the size in the low half.
type segmentHints struct{ slots [4096]atomic.Uint64 }

func (h *segmentHints) slot(hash uint32) *atomic.Uint64 { return &h.slots[hash%uint32(len(h.slots))] }

// get returns the largest packet for a flow in bytes, at most limit.
func (h *segmentHints) get(hash uint32, limit int) int {
	v := h.slot(hash).Load()
	if uint32(v>>32) != hash || v == 0 {
		return limit
	}
	return min(limit, max(int(uint32(v)), smallestSegment))
}

// smallestSegment is the minimum segment size, regardless of what the far end announces: the
// longest IPv4 and TCP headers and 8 bytes of payload. An announced MSS of 1 must not turn one
// packet into sixty thousand.
const smallestSegment = 60 + 60 + 8

// set stores the largest packet for a flow in bytes.
func (h *segmentHints) set(hash uint32, size int) {
	h.slot(hash).Store(uint64(hash)<<32 | uint64(uint32(size)))
}

// learnMSS stores the MSS that a SYN or SYN-ACK announces.
func (h *segmentHints) learnMSS(b []byte, ip *packet.IP, hash uint32) {
	if mss, ok := packet.MSS(b, ip); ok {
		h.set(hash, int(mss)+packet.TCPHeaderLen+fixedHeader(ip.Version))
	}
}

func fixedHeader(version uint8) int {
	if version == 6 {
		return packet.IPv6HeaderLen
	}
	return packet.IPv4HeaderLen
}

// learnTooBig stores the MTU of a fragmentation-needed or packet-too-big error about a flow of
// this cluster, once error and quote are translated.
func (h *segmentHints) learnTooBig(b []byte, ip *packet.IP, quote []byte, q *packet.IP) {
	mtu, ok := tooBigMTU(ip.Upper(b), ip.Version)
	if !ok || q.Proto != packet.ProtoTCP || len(quote) < int(q.Header)+4 {
		return
	}
	h.set(packet.FlowHash(quote, q), max(mtu, smallestMTU[index(ip.Version)]))
}

// smallestMTU is the smallest MTU accepted from an error, bytes: for IPv6 the minimum link MTU
// (RFC 8201 section 4). For IPv4 that would be 68 (RFC 791), but Linux accepts no less than 552
// (ip-sysctl, min_pmtu), so the sender does not go below that either.
var smallestMTU = [2]int{552, packet.MinIPv6MTU}

// tooBigMTU returns the MTU in a fragmentation-needed (RFC 1191 section 4) or packet-too-big
// error (RFC 4443 section 3.2).
func tooBigMTU(icmp []byte, version uint8) (mtu int, ok bool) {
	switch {
	case len(icmp) < packet.ICMPHeaderLen:
		return 0, false
	case version == 4 && icmp[0] == 3 && icmp[1] == 4:
		return int(binary.BigEndian.Uint16(icmp[6:])), true
	case version == 6 && icmp[0] == 2:
		return int(min(binary.BigEndian.Uint32(icmp[4:]), packet.MaxLen)), true
	}
	return 0, false
}
