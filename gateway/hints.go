package gateway

import (
	"encoding/binary"
	"sync/atomic"

	"strait.dev/strait/packet"
)

// segmentHints caches, for some flows, what a SYN, a SYN-ACK and packet-too-big errors state
// about the segments that the far end and the path accept.
//
// It exists for one case. A kernel tunnel device on the gateway's own machine hands over TCP
// unsegmented: one packet of several segments, without the size of the segments, which the
// kernel passes on for UDP only (UDP_GRO). Unfinished checksums are the only mark of such
// packets, and of single segments too. A piece that is longer than the segments of the sender
// can be lost for good: it may exceed the MSS of the far end or the MTU of a path beyond the
// far gateway, and the sender, whose segments are short enough, ignores the errors.
//
// A SYN-ACK and an error may take another gateway than the segments. So each of these packets crosses to
// one gateway, and a copy with TTL 0 to each other gateway of the cluster, which reads and discards it
// (Result.Hint).
//
// It is a cache, not flow state. What is not known, because the gateway restarted or the flow's slot
// was overwritten, is cut to a size that every path carries, 1280 bytes (RFC 8200 section 5): that costs
// more packets and nothing else. An IPv4 path that carries less answers the first of them with an error.
//
// Ingress writes it on SYNs and errors, Egress reads it for packets with unfinished checksums.
// No lock is needed: a slot is one word, with the flow's hash in the high half and the hint in
// the low half. The hash has a secret key, so that no remote pod can choose a flow of its own
// whose SYN changes the segments of another flow.
type segmentHints struct {
	key   packet.FlowKey
	slots [4096]atomic.Uint64
}

// hint is what is known of a flow.
type hint struct {
	size       int  // largest packet, bytes
	classicECN bool // the flow may use ECN, and then as RFC 3168 and not as RFC 9768 specifies
}

const classicECNBit = 1 << 31

func (h *segmentHints) slot(hash uint32) *atomic.Uint64 { return &h.slots[hash%uint32(len(h.slots))] }

// get returns the hint of a flow; ok is false if there is none.
func (h *segmentHints) get(hash uint32) (known hint, ok bool) {
	v := h.slot(hash).Load()
	if uint32(v>>32) != hash || v == 0 {
		return hint{}, false
	}
	return hint{size: int(uint32(v) &^ classicECNBit), classicECN: v&classicECNBit != 0}, true
}

// smallestSegment is the minimum segment size, regardless of what the far end announces: the
// longest IPv4 and TCP headers and 8 bytes of payload. An announced MSS of 1 must not turn one
// packet into sixty thousand.
const smallestSegment = 60 + 60 + 8

// set stores the hint of a flow.
func (h *segmentHints) set(hash uint32, known hint) {
	v := uint64(hash)<<32 | uint64(max(known.size, smallestSegment))
	if known.classicECN {
		v |= classicECNBit
	}
	h.slot(hash).Store(v)
}

// segment returns the size in bytes to which a packet with an unfinished checksum is to be cut for a
// leg with an MTU, 0 if it is to be left whole, and whether CWR belongs on the first segment only.
//
// With classic ECN it does. With AccECN, AE, CWR and ECE are a counter that all segments
// share, and clearing one bit makes the far end read up to six more marks. The kernel
// distinguishes the two by the type of the super-packet, which the gateway does not see. If the
// handshake did not pass here, CWR is copied: for classic ECN that does little harm, because
// a mark on one segment, which CWR of the next one ends, is still acknowledged once with ECE.
func (h *segmentHints) segment(mtu int, b []byte, ip *packet.IP) (size int, cwrOnce bool) {
	if ip.Proto != packet.ProtoTCP || len(b) <= min(mtu, smallestSegment) {
		return 0, false
	}
	known, ok := h.get(h.key.Hash(b, ip))
	if !ok {
		known.size = packet.MinIPv6MTU
	}
	return segmentTo(b, ip, known.size, mtu), known.classicECN
}

// segmentTo returns size, but at most mtu, if a TCP packet has to be cut to it, else 0.
// A packet that fits mtu and cannot be cut, a SYN with data for instance, is one segment.
func segmentTo(b []byte, ip *packet.IP, size, mtu int) int {
	size = min(size, mtu)
	switch {
	case len(b) <= size, len(b) <= mtu && !packet.Segmentable(b, ip, size):
		return 0
	}
	return size
}

// learnSYN stores what a SYN or SYN-ACK announces.
func (h *segmentHints) learnSYN(b []byte, ip *packet.IP) {
	if !packet.IsSYN(b, ip) {
		return
	}
	mss, ok := packet.MSS(b, ip)
	if !ok {
		mss = defaultMSS[index(ip.Version)]
	}
	h.set(h.key.Hash(b, ip), hint{int(mss) + packet.TCPHeaderLen + fixedHeader(ip.Version), packet.NegotiatesClassicECN(b, ip)})
}

// defaultMSS is the MSS of a far end that announces none (RFC 9293 section 3.7.1).
var defaultMSS = [2]uint16{536, 1220}

func fixedHeader(version uint8) int {
	if version == 6 {
		return packet.IPv6HeaderLen
	}
	return packet.IPv4HeaderLen
}

// learnTooBig stores the MTU of a fragmentation-needed or packet-too-big error about a flow of
// this cluster, once error and quote are translated. An error never allows more than before:
// any host in the remote cluster can forge one.
func (h *segmentHints) learnTooBig(b []byte, ip *packet.IP, quote []byte, q *packet.IP) {
	mtu, ok := tooBigMTU(ip.Upper(b), ip.Version)
	if !ok || q.Proto != packet.ProtoTCP || len(quote) < int(q.Header)+4 {
		return
	}
	mtu = max(mtu, smallestMTU[index(ip.Version)])
	hash := h.key.Hash(quote, q)
	known, ok := h.get(hash)
	if !ok {
		known.size = packet.MinIPv6MTU
	}
	known.size = min(known.size, mtu)
	h.set(hash, known)
}

// smallestMTU is the smallest MTU accepted from an error, bytes: for IPv6 the minimum link MTU
// (RFC 8201 section 4). For IPv4 that would be 68 (RFC 791), but Linux accepts no less than 552
// (ip-sysctl, min_pmtu), so the sender does not go below that either.
var smallestMTU = [2]int{552, packet.MinIPv6MTU}

// isHint reports whether a packet states what segments the far end or the path accept.
func isHint(b []byte, ip *packet.IP) bool {
	if packet.IsICMPError(b, ip) {
		_, tooBig := tooBigMTU(ip.Upper(b), ip.Version)
		return tooBig
	}
	return packet.IsSYN(b, ip)
}

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
