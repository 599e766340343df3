package packet

import (
	"encoding/binary"
	"time"
)

// part is what a fragment says of itself, and its bytes where they came.
type part struct {
	key     datagramKey
	header  []byte // what stands in front of the fragmentation: IPv4 header, IPv6 per-fragment headers
	payload []byte
	offset  int   // of payload in the datagram's, bytes
	next    uint8 // IPv6: the header behind the fragment header
	more    bool
	df      bool
	ecn     uint8
	size    uint16 // bytes of the fragment as it came
}

// datagramKey is what all fragments of a datagram have alike: IPv4 RFC 791
// section 3.2; IPv6 without the protocol, RFC 8200 section 4.5. IPv4 addresses
// are 4in6, which Parse refuses in IPv6 packets, so the families never mix.
type datagramKey struct {
	src, dst [16]byte
	id       uint32
	proto    uint8
}

// readPart reads a packet that Parse found to be a fragment.
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

// cutsUpperHeader reports whether a fragment ends or begins inside the header of
// the upper layer. No sender does that; it hides ports and flags from whoever
// looks at first fragments only (RFC 1858 section 3, RFC 3128). A later fragment
// behind IPv6 destination options is not looked into: an overlap would tell.
func cutsUpperHeader(b []byte, ip *IP) bool {
	if ip.Fragment == LaterFragment {
		return int(ip.fragData) < minUpperHeader(ip.Proto)
	}
	u := ip.Upper(b)
	return len(u) < upperHeader(u, ip.Proto)
}

// minUpperHeader is the least that the header of a protocol has, bytes. The
// smallest fragment has 8, and most have no more than that: UDP and ICMP.
func minUpperHeader(proto uint8) int {
	if proto == ProtoTCP {
		return TCPHeaderLen
	}
	return 8
}

// upperHeader is how long the upper-layer header u says it is, bytes.
func upperHeader(u []byte, proto uint8) int {
	n := minUpperHeader(proto)
	if proto == ProtoTCP && len(u) >= n {
		return max(n, int(u[tcpOffset]>>4)*4)
	}
	return n
}

// incomplete is a datagram that waits for fragments, or was refused. It holds no
// pointers, so that the garbage collector need not look at thousands of them.
type incomplete struct {
	key    datagramKey
	born   time.Duration // when its first fragment came
	chain  uint16        // the next in its hash chain
	source uint16        // 0 = refused

	refused ReassemblyFault // what it was refused for; ReassemblyWhole = it was not
	df      bool            // some fragment had DF
	ecn     uint8           // one bit for each ECN field that was seen
	next    uint8           // IPv6: what the first fragment has behind its fragment header

	total   uint16 // bytes of payload in all, 0 = the last fragment has not come
	top     uint16 // how far fragments reach that are not the last, bytes
	units   uint16 // of 8 bytes that are here
	largest uint16 // bytes of the longest fragment
	header  uint16 // bytes of headers in front, 0 = the first fragment has not come

	headerBlock uint16
	blocks      [MaxLen/blockLen + 1]uint16 // by offset; 0 = nothing there yet
}

// join puts a fragment into its datagram. A fault other than ReassemblyHeld
// means that the datagram has to be refused.
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
	// Marks must not get lost, and must not reach a transport that does not know
	// them; with both kinds among the fragments somebody has tampered with them.
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

// agreesAboutEnd reports whether a fragment that ends at end can be part of what
// is known: there is one last fragment, and nothing lies at or behind its end.
func (g *incomplete) agreesAboutEnd(more bool, end int) bool {
	if more {
		return g.total == 0 || end < int(g.total)
	}
	return int(g.top) < end && (g.total == 0 || end == int(g.total))
}

// evictFor sees that n blocks are free for datagram d. It reports false when d
// itself is the one that has to go.
func (r *Reassembly) evictFor(d uint16, n int) bool {
	for r.blocks.left() < n {
		victim := r.oldestOfFullest()
		if victim == d {
			return false
		}
		// What comes of it later is refused: it would take its memory again, from
		// datagrams that can still complete, and never complete itself.
		r.refuse(victim, ReassemblyMemory)
		r.evicted.Add(1)
	}
	return true
}

// putWhole puts a complete datagram together in r.out.
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

// putUnfragmented copies a packet that needs no other to r.out, without the
// fragment header it may have.
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
