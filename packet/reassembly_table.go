package packet

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// source is an address with waiting datagrams.
type source struct {
	addr    [16]byte
	chain   uint16 // the next in its hash chain
	waiting uint16 // datagrams
}

// siblingsOf returns the ring head of a source's datagrams; rankOf that of the sources with
// n datagrams.
func (r *Reassembly) siblingsOf(source uint16) uint16 { return uint16(len(r.datagrams)) + source }
func (r *Reassembly) rankOf(n int) uint16             { return uint16(len(r.sources)-1) + uint16(n) }

// find returns the datagram with a key, 0 if there is none.
func (r *Reassembly) find(key *datagramKey) uint16 {
	d := *r.keyChain(key)
	for d != 0 && r.datagrams[d].key != *key {
		d = r.datagrams[d].chain
	}
	return d
}

// begin adds an empty datagram. It evicts others if necessary.
func (r *Reassembly) begin(key *datagramKey, t time.Duration) uint16 {
	if s := r.findSource(&key.src); s != 0 && int(r.sources[s].waiting) >= r.perSource {
		r.lose(r.siblings.first(r.siblingsOf(s)), t)
	}
	if len(r.freeDatagrams) == 0 {
		r.lose(r.dispensable(), t)
	}
	last := len(r.freeDatagrams) - 1
	d := r.freeDatagrams[last]
	r.freeDatagrams = r.freeDatagrams[:last]

	head := r.keyChain(key)
	s := r.sourceOf(&key.src)
	r.datagrams[d] = incomplete{key: *key, born: t, chain: *head, source: s}
	*head = d
	r.ages.add(0, d)
	r.siblings.add(r.siblingsOf(s), d)
	r.count(s, +1)
	return d
}

// dispensable returns the datagram to evict when there are too many: a refused one, or else
// the oldest of the source with most datagrams.
func (r *Reassembly) dispensable() uint16 {
	if d := r.siblings.first(r.siblingsOf(0)); d != r.siblingsOf(0) {
		return d
	}
	return r.oldestOfFullest()
}

// oldestOfFullest returns the oldest datagram of the source with most waiting datagrams;
// among equals, of the source that reached that number first. At least one datagram must be
// waiting.
func (r *Reassembly) oldestOfFullest() uint16 {
	return r.siblings.first(r.siblingsOf(r.ranks.first(r.rankOf(r.fullest))))
}

// expire removes up to n datagrams that have timed out.
func (r *Reassembly) expire(t time.Duration, n int) {
	for range n {
		d := r.ages.first(0)
		if d == 0 || !r.isOver(d, t) {
			return
		}
		r.lose(d, t)
	}
}

func (r *Reassembly) isOver(d uint16, t time.Duration) bool {
	return t-r.datagrams[d].born >= r.timeout
}

// lose removes an incomplete datagram and counts the reason, unless it was refused, which
// was reported already.
func (r *Reassembly) lose(d uint16, t time.Duration) {
	switch {
	case r.datagrams[d].refused != ReassemblyWhole:
	case r.isOver(d, t):
		r.timedOut.Add(1)
	default:
		r.evicted.Add(1)
	}
	r.forget(d)
}

// refuse frees the memory of a datagram and keeps its key.
func (r *Reassembly) refuse(d uint16, fault ReassemblyFault) {
	r.giveUp(d)
	r.datagrams[d].refused = fault
	r.siblings.add(r.siblingsOf(0), d)
}

// forget frees a datagram and its entry.
func (r *Reassembly) forget(d uint16) {
	r.giveUp(d)
	g := &r.datagrams[d]
	at := r.keyChain(&g.key)
	for *at != d {
		at = &r.datagrams[*at].chain
	}
	*at = g.chain
	r.ages.take(d)
	r.freeDatagrams = append(r.freeDatagrams, d)
}

// giveUp frees the memory of a datagram and removes it from the list of its source, or of
// the refused ones.
func (r *Reassembly) giveUp(d uint16) {
	g := &r.datagrams[d]
	r.blocks.release(g)
	r.bytes.Store(int64(r.blocks.used()) * blockLen)
	r.siblings.take(d)
	if g.source != 0 {
		r.count(g.source, -1)
		g.source = 0
	}
}

// findSource returns the source with an address, 0 if there is none.
func (r *Reassembly) findSource(addr *[16]byte) uint16 {
	s := *r.addressChain(addr)
	for s != 0 && r.sources[s].addr != *addr {
		s = r.sources[s].chain
	}
	return s
}

// sourceOf returns the source with an address and adds it if necessary. A free entry always
// exists: there are as many as datagrams.
func (r *Reassembly) sourceOf(addr *[16]byte) uint16 {
	if s := r.findSource(addr); s != 0 {
		return s
	}
	last := len(r.freeSources) - 1
	s := r.freeSources[last]
	r.freeSources = r.freeSources[:last]
	head := r.addressChain(addr)
	r.sources[s] = source{addr: *addr, chain: *head}
	*head = s
	return s
}

// count adds change to the number of datagrams of a source, and frees a source without any.
func (r *Reassembly) count(s uint16, change int) {
	g := &r.sources[s]
	n := int(g.waiting) + change
	g.waiting = uint16(n)
	r.waiting.Add(int64(change))
	r.ranks.take(s)
	if n > 0 {
		r.ranks.add(r.rankOf(n), s)
	}
	// Numbers change by one, so the fullest has one more or one less than before.
	if n > r.fullest {
		r.fullest = n
	} else if r.fullest > 0 && r.ranks.first(r.rankOf(r.fullest)) == r.rankOf(r.fullest) {
		r.fullest--
	}
	if n > 0 {
		return
	}
	at := r.addressChain(&g.addr)
	for *at != s {
		at = &r.sources[*at].chain
	}
	*at = g.chain
	r.freeSources = append(r.freeSources, s)
}

// keyChain returns the head of the hash chain of a datagram key.
func (r *Reassembly) keyChain(key *datagramKey) *uint16 {
	h := r.hashAddress(&key.src)
	h = FoldMul(h^binary.BigEndian.Uint64(key.dst[:8]), r.seed[0]^binary.BigEndian.Uint64(key.dst[8:]))
	h = FoldMul(h^uint64(key.id)^uint64(key.proto)<<32, r.seed[1])
	return &r.byKey[h&uint64(len(r.byKey)-1)]
}

// addressChain returns the head of the hash chain of a source address.
func (r *Reassembly) addressChain(addr *[16]byte) *uint16 {
	return &r.byAddress[r.hashAddress(addr)&uint64(len(r.byAddress)-1)]
}

func (r *Reassembly) hashAddress(addr *[16]byte) uint64 {
	return FoldMul(binary.BigEndian.Uint64(addr[:8])^r.seed[0], binary.BigEndian.Uint64(addr[8:])^r.seed[1])
}

// hashSize returns the number of chains of a table of n: a power of two, at least n.
func hashSize(n int) int { return 1 << bits.Len(uint(n-1)) }

// rings are circular lists of numbers: some numbers are members, others heads. Each number
// is in one ring; a number that was never added is alone in its ring, as an empty head is.
// The zero value has no numbers.
type rings []struct{ before, behind uint16 }

func newRings(n int) rings {
	r := make(rings, n)
	for i := range r {
		r[i].before, r[i].behind = uint16(i), uint16(i)
	}
	return r
}

// first returns the member after head; head itself when the ring is empty.
func (r rings) first(head uint16) uint16 { return r[head].behind }

// add appends i, which is alone in its ring, to the ring of head.
func (r rings) add(head, i uint16) {
	last := r[head].before
	r[i].before, r[i].behind = last, head
	r[last].behind, r[head].before = i, i
}

// take removes i from its ring.
func (r rings) take(i uint16) {
	before, behind := r[i].before, r[i].behind
	r[before].behind, r[behind].before = behind, before
	r[i].before, r[i].behind = i, i
}

// numbers returns n to 1: free entries, of which the last is taken first.
func numbers(n int) []uint16 {
	free := make([]uint16, n)
	for i := range free {
		free[i] = uint16(n - i)
	}
	return free
}
