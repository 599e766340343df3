package packet

import "time"

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
	if !r.makeRoom(d, need) {
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

// makeRoom sees that n blocks are free for datagram d. It reports false when d
// itself is the one that has to go.
func (r *Reassembly) makeRoom(d uint16, n int) bool {
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
