package packet

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// source is an address that has datagrams waiting.
type source struct {
	addr    [16]byte
	chain   uint16 // the next in its hash chain
	waiting uint16 // datagrams
}

// siblingsOf is the head of the ring of a source's datagrams, rankOf of the
// sources with n datagrams.
func (r *Reassembly) siblingsOf(source uint16) uint16 { return uint16(len(r.datagrams)) + source }
func (r *Reassembly) rankOf(n int) uint16             { return uint16(len(r.sources)-1) + uint16(n) }

// find returns the datagram that has key, 0 for none.
func (r *Reassembly) find(key *datagramKey) uint16 {
	d := *r.keyChain(key)
	for d != 0 && r.datagrams[d].key != *key {
		d = r.datagrams[d].chain
	}
	return d
}

// begin makes a datagram of which nothing is there yet.
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

// dispensable is what goes when there are too many datagrams: one that was
// refused already, or else the oldest of those who have most.
func (r *Reassembly) dispensable() uint16 {
	if d := r.siblings.first(r.siblingsOf(0)); d != r.siblingsOf(0) {
		return d
	}
	return r.oldestOfFullest()
}

// oldestOfFullest is the oldest datagram of the source that has most of them
// waiting; among equals, of the one that has had as many for longest. The caller
// knows that some datagram waits.
func (r *Reassembly) oldestOfFullest() uint16 {
	return r.siblings.first(r.siblingsOf(r.ranks.first(r.rankOf(r.fullest))))
}

// expire forgets up to n datagrams that have waited too long.
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

// lose forgets a datagram that is not whole and counts why, unless it was
// refused, which its caller has been told.
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

// refuse gives up what a datagram holds and keeps its name.
func (r *Reassembly) refuse(d uint16, fault ReassemblyFault) {
	r.giveUp(d)
	r.datagrams[d].refused = fault
	r.siblings.add(r.siblingsOf(0), d)
}

// forget frees a datagram's place.
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

// giveUp frees a datagram's memory and takes it from its source, or from the
// refused ones.
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

// findSource returns the source with an address, 0 for none.
func (r *Reassembly) findSource(addr *[16]byte) uint16 {
	s := *r.addressChain(addr)
	for s != 0 && r.sources[s].addr != *addr {
		s = r.sources[s].chain
	}
	return s
}

// sourceOf finds or makes a source. One is always free: there are as many as
// datagrams.
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

// count notes that a source has one datagram more or less, and frees one that
// has none.
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

// keyChain is where the chain begins in which a datagram is.
func (r *Reassembly) keyChain(key *datagramKey) *uint16 {
	h := r.hashAddress(&key.src)
	h = FoldMul(h^binary.BigEndian.Uint64(key.dst[:8]), r.seed[0]^binary.BigEndian.Uint64(key.dst[8:]))
	h = FoldMul(h^uint64(key.id)^uint64(key.proto)<<32, r.seed[1])
	return &r.byKey[h&uint64(len(r.byKey)-1)]
}

// addressChain is where the chain begins in which a source is.
func (r *Reassembly) addressChain(addr *[16]byte) *uint16 {
	return &r.byAddress[r.hashAddress(addr)&uint64(len(r.byAddress)-1)]
}

func (r *Reassembly) hashAddress(addr *[16]byte) uint64 {
	return FoldMul(binary.BigEndian.Uint64(addr[:8])^r.seed[0], binary.BigEndian.Uint64(addr[8:])^r.seed[1])
}

// hashSize is how many chains a table of n has: a power of two, at least n.
func hashSize(n int) int { return 1 << bits.Len(uint(n-1)) }

// rings are lists that go round, of numbers: some number the members, others are
// the heads. Each number is in one ring; one that was never put anywhere is in a
// ring of its own, as an empty head is. The zero value has no numbers.
type rings []struct{ before, behind uint16 }

func newRings(n int) rings {
	r := make(rings, n)
	for i := range r {
		r[i].before, r[i].behind = uint16(i), uint16(i)
	}
	return r
}

// first is the member behind head; head itself when the ring is empty.
func (r rings) first(head uint16) uint16 { return r[head].behind }

// add puts i, which is in no ring with others, at the end of head's ring.
func (r rings) add(head, i uint16) {
	last := r[head].before
	r[i].before, r[i].behind = last, head
	r[last].behind, r[head].before = i, i
}

// take takes i out of its ring.
func (r rings) take(i uint16) {
	before, behind := r[i].before, r[i].behind
	r[before].behind, r[behind].before = behind, before
	r[i].before, r[i].behind = i, i
}

// numbers are n to 1: free places, of which the last is taken first.
func numbers(n int) []uint16 {
	free := make([]uint16, n)
	for i := range free {
		free[i] = uint16(n - i)
	}
	return free
}
