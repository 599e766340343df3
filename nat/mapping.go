package nat

import "sync/atomic"

// mapping assigns an external endpoint to an inside endpoint, the same for every remote (RFC
// 4787 REQ-1, RFC 5382 REQ-1). 32 bytes.
//
// Fields that packets read are atomic. A reader checks life to know that the fields it read
// belong together: life is odd while the mapping exists, and never repeats.
type mapping struct {
	life   atomic.Uint32
	flows  uint32        // number of flows that use it, or the next free entry; protected by Masquerade.mu
	hi, lo atomic.Uint64 // address of the inside
	ends   atomic.Uint64 // see ends
}

// ends contains the ports of a mapping, its kind, and the pool of its external address: from
// the low bits up, inside port (16), kind (16), external port (16), pool (16).
type ends uint64

func newEnds(k kind, inside uint16, pool uint16, external uint16) ends {
	return insideEnd(k, inside) | ends(external)<<32 | ends(pool)<<48
}

// insideEnd returns the part that is known before a mapping exists.
func insideEnd(k kind, port uint16) ends { return ends(port) | ends(k)<<16 }

func (e ends) inside() ends         { return e & 0xffffffff }
func (e ends) insidePort() uint16   { return uint16(e) }
func (e ends) kind() kind           { return kind(e >> 16 & 0xff) }
func (e ends) externalPort() uint16 { return uint16(e >> 32) }
func (e ends) pool() uint16         { return uint16(e >> 48) }

// read returns the fields of a mapping, and its life at that time.
func (m *mapping) read() (inside words, e ends, live uint32, ok bool) {
	live = m.life.Load()
	inside = words{m.hi.Load(), m.lo.Load()}
	e = ends(m.ends.Load())
	return inside, e, live, live&1 != 0 && m.still(live)
}

// still reports whether the mapping has not ended since live was read.
func (m *mapping) still(live uint32) bool { return m.life.Load() == live }

// mappingTable holds all mappings. Lookups take no lock; writers hold Masquerade.mu.
type mappingTable struct {
	entries []mapping
	key     *hashKey

	byInside chains
	free     freeList
}

func newMappingTable(n int, key *hashKey) mappingTable {
	return mappingTable{
		entries: make([]mapping, n), key: key,
		byInside: newChains(n), free: freeList{size: uint32(n)},
	}
}

func (t *mappingTable) bucket(inside words, end ends) uint32 {
	return t.byInside.bucket(t.key.hash(inside, uint64(end)<<16|tagMapping))
}

// find returns the mapping of an inside endpoint, its ends, and its life at that time.
func (t *mappingTable) find(k kind, inside words, port uint16) (i uint32, e ends, live uint32, ok bool) {
	end := insideEnd(k, port)
	for w := t.byInside.walk(t.bucket(inside, end)); ; w.step() {
		i, ok := w.entry()
		if !ok {
			return 0, 0, 0, false
		}
		if addr, e, live, ok := t.entries[i].read(); ok && addr == inside && e.inside() == end {
			return i, e, live, true
		}
	}
}

// add creates a mapping without flows. None for the same inside endpoint may exist. ok is
// false when the table is full.
func (t *mappingTable) add(inside words, e ends) (i uint32, ok bool) {
	i, ok = t.free.take(t.link)
	if !ok {
		return 0, false
	}
	m := &t.entries[i]
	m.flows = 0
	m.hi.Store(inside.hi)
	m.lo.Store(inside.lo)
	m.ends.Store(uint64(e))
	m.life.Add(1)
	t.byInside.insert(t.bucket(inside, e.inside()), i)
	return i, true
}

// end ends a mapping without flows.
func (t *mappingTable) end(i uint32) {
	m := &t.entries[i]
	inside, e, _, _ := m.read()
	m.life.Add(1)
	t.byInside.remove(t.bucket(inside, e.inside()), i)
	t.free.give(i, t.link)
}

// link returns the place where a free entry stores its successor in the free list.
func (t *mappingTable) link(i uint32) *uint32 { return &t.entries[i].flows }
