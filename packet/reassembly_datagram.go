package packet

import (
	"encoding/binary"
	"time"
)

// part is a parsed fragment; its slices alias the packet.
type part struct {
	key     datagramKey
	header  []byte // IPv4 header, or IPv6 per-fragment headers
	payload []byte
	offset  int   // of payload in the payload of the datagram, bytes
	next    uint8 // IPv6: the header behind the fragment header
	more    bool
	df      bool
	ecn     uint8
	size    uint16 // bytes of the fragment as received
}

// datagramKey identifies the datagram of a fragment: IPv4 RFC 791 section 3.2; IPv6
// without the protocol, RFC 8200 section 4.5. IPv4 addresses are stored as 4in6, which
// Parse refuses in IPv6 packets, so the families cannot be confused.
type datagramKey struct {
	src, dst [16]byte
	id       uint32
	proto    uint8
}

// readPart parses a packet that Parse classified as a fragment.
func readPart(b []byte, ip *IP) part {
	f := part{
		key:    datagramKey{src: ip.Src.As16(), dst: ip.Dst.As16()},
		offset: int(ip.fragData),
		df:     ip.DF,
		ecn:    ECN(b, ip.Version),
		size:   ip.Len,
	}
	if ip.Version == 4 {
		f.key.id, f.key.proto = uint32(binary.BigEndian.Uint16(b[4:])), ip.Proto
		f.more = binary.BigEndian.Uint16(b[6:])&ipv4MoreFragments != 0
		f.header, f.payload = b[:ip.Header], b[ip.Header:ip.Len]
		return f
	}
	h := b[ip.fragOffset : ip.fragOffset+fragmentHeaderLen]
	f.key.id = binary.BigEndian.Uint32(h[4:])
	f.next, f.more = h[0], h[3]&ipv6MoreFragments != 0
	f.header, f.payload = b[:ip.fragOffset], b[ip.fragOffset+fragmentHeaderLen:ip.Len]
	return f
}

// cutsUpperHeader reports whether a fragment boundary lies inside the upper-layer header.
// No regular sender does that; it hides ports and flags from filters that inspect first
// fragments only (RFC 1858 section 3, RFC 3128). Later fragments after IPv6 destination
// options are not checked: an overlap would be detected.
func cutsUpperHeader(b []byte, ip *IP) bool {
	if ip.Fragment == LaterFragment {
		return int(ip.fragData) < minUpperHeader(ip.Proto)
	}
	u := ip.Upper(b)
	return len(u) < upperHeader(u, ip.Proto)
}

// minUpperHeader returns the minimum length in bytes of a protocol's header. The smallest
// fragment has 8 bytes, which is enough for UDP and ICMP.
func minUpperHeader(proto uint8) int {
	if proto == ProtoTCP {
		return TCPHeaderLen
	}
	return 8
}

// upperHeader returns the length in bytes of the upper-layer header u by its own fields.
func upperHeader(u []byte, proto uint8) int {
	n := minUpperHeader(proto)
	if proto == ProtoTCP && len(u) >= n {
		return max(n, int(u[tcpOffset]>>4)*4)
	}
	return n
}

// incomplete is a datagram that waits for fragments or was refused. It contains no
// pointers, so that the garbage collector does not scan thousands of them.
type incomplete struct {
	key    datagramKey
	born   time.Duration // arrival of its first fragment
	chain  uint16        // the next in its hash chain
	source uint16        // 0 = refused

	refused ReassemblyFault // why it was refused; ReassemblyWhole = not refused
	df      bool            // some fragment had DF
	ecn     uint8           // one bit for each ECN field that was seen
	next    uint8           // IPv6: next header in the first fragment's fragment header

	total   uint16 // bytes of payload in all, 0 = last fragment not received
	top     uint16 // end of the fragments that are not the last, bytes
	units   uint16 // units received
	largest uint16 // bytes of the longest fragment
	header  uint16 // bytes of headers in front, 0 = first fragment not received

	headerBlock uint16
	blocks      [MaxLen/blockLen + 1]uint16 // by offset; 0 = not received
}

// join adds a fragment to its datagram. If the result is neither ReassemblyHeld nor
// ReassemblyWhole, the datagram has to be refused.
func (r *Reassembly) join(d uint16, f *part) ReassemblyFault {
	g := &r.datagrams[d]
	end := f.offset + len(f.payload)
	from, to := f.offset/unitLen, unitsOf(end)
	if !g.agreesAboutEnd(f.more, end) {
		return ReassemblyOverlap
	}
	if r.blocks.overlaps(g, from, to) {
		if r.blocks.isDuplicate(g, f.payload, from, to) {
			return ReassemblyHeld
		}
		return ReassemblyOverlap
	}
	// A mark must not get lost and must not reach a transport that is not ECN-capable. A
	// datagram with both kinds of fragments was tampered with.
	if g.ecn |= 1 << f.ecn; g.ecn&(1<<NotECT) != 0 && g.ecn != 1<<NotECT {
		return ReassemblyECN
	}
	header, need := int(g.header), r.blocks.missing(g, from, to)
	if f.offset == 0 {
		header = len(f.header)
		need++
	}
	if header > blockLen || header+max(end, int(g.top), int(g.total)) > MaxLen {
		return ReassemblyTooLong
	}
	if !r.evictFor(d, need) {
		return ReassemblyMemory
	}

	if f.offset == 0 {
		g.header, g.next, g.headerBlock = uint16(header), f.next, r.blocks.take()
		copy(r.blocks.bytes(g.headerBlock), f.header)
	}
	r.blocks.put(g, f.payload, from, to)
	r.bytes.Store(int64(r.blocks.used()) * blockLen)
	g.units += uint16(to - from)
	g.largest = max(g.largest, f.size)
	g.df = g.df || f.df
	if f.more {
		g.top = max(g.top, uint16(end))
	} else {
		g.total = uint16(end)
	}
	if g.total == 0 || int(g.units) != unitsOf(int(g.total)) {
		return ReassemblyHeld
	}
	return ReassemblyWhole
}

// agreesAboutEnd reports whether a fragment that ends at end is consistent with those
// received: there is one last fragment, and no data lies beyond its end.
func (g *incomplete) agreesAboutEnd(more bool, end int) bool {
	if more {
		return g.total == 0 || end < int(g.total)
	}
	return int(g.top) < end && (g.total == 0 || end == int(g.total))
}

// evictFor evicts datagrams until n blocks are free for datagram d. It reports false when
// d itself is the next to evict.
func (r *Reassembly) evictFor(d uint16, n int) bool {
	for r.blocks.left() < n {
		victim := r.oldestOfFullest()
		if victim == d {
			return false
		}
		// Later fragments of the victim are refused: they would take memory again from
		// datagrams that can still complete, and the victim can never complete.
		r.refuse(victim, ReassemblyMemory)
		r.evicted.Add(1)
	}
	return true
}

// putWhole writes a complete datagram to r.out.
func (r *Reassembly) putWhole(g *incomplete) []byte {
	header, n := int(g.header), int(g.header)+int(g.total)
	whole := r.out[:n]
	copy(whole[:header], r.blocks.bytes(g.headerBlock))
	for i, at := 0, header; at < n; i++ {
		at += copy(whole[at:], r.blocks.bytes(g.blocks[i]))
	}
	if g.ecn&(1<<CE) != 0 {
		SetECN(whole, &IP{Version: whole[0] >> 4}, CE)
	}
	if whole[0]>>4 == 6 {
		whole[nextHeaderField(whole, header)] = g.next
		binary.BigEndian.PutUint16(whole[4:], uint16(n-IPv6HeaderLen))
		return whole
	}
	flags := binary.BigEndian.Uint16(whole[6:]) &^ (ipv4MoreFragments | ipv4FragmentOffset)
	if g.df {
		flags |= ipv4DontFragment
	}
	binary.BigEndian.PutUint16(whole[2:], uint16(n))
	binary.BigEndian.PutUint16(whole[6:], flags)
	putIPv4Checksum(whole[:header])
	return whole
}

// putUnfragmented copies an unfragmented packet to r.out, without its fragment header if
// it has one.
func (r *Reassembly) putUnfragmented(b []byte, ip *IP) []byte {
	b = b[:ip.Len]
	at := int(ip.fragOffset)
	if at == 0 {
		return r.out[:copy(r.out, b)]
	}
	n := copy(r.out, b[:at])
	n += copy(r.out[n:], b[at+fragmentHeaderLen:])
	r.out[nextHeaderField(r.out, at)] = b[at]
	binary.BigEndian.PutUint16(r.out[4:], uint16(n-IPv6HeaderLen))
	return r.out[:n]
}
