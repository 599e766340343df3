package nat

import "sync/atomic"

// chains are the collision chains of a hash table whose entries are numbers. Any number of
// goroutines may walk them without a lock while one inserts and removes.
//
// A removed entry keeps its link, so that a walk that stands on it can continue. If the
// entry is reused, its link leads into another chain. Each chain therefore ends with a mark
// that contains its bucket, and a walk that arrives at the mark of another bucket starts
// over. So a walk finds every entry that was in its chain all the time.
type chains struct {
	heads []atomic.Uint32 // by bucket: an entry, or the chain's end
	next  []atomic.Uint32 // by entry: an entry, or the chain's end
}

const (
	endOfChain = 1 << 31 // ORed with the number of the bucket

	// maxHops limits the length of a walk, restarts included. Chain lengths are random: below
	// 20 in a full table.
	maxHops = 1024
)

// newChains returns chains for entries 0 to n-1, with one entry per chain on average.
func newChains(n int) chains {
	buckets := 1
	for buckets < n {
		buckets *= 2
	}
	c := chains{heads: make([]atomic.Uint32, buckets), next: make([]atomic.Uint32, n)}
	for b := range c.heads {
		c.heads[b].Store(endOfChain | uint32(b))
	}
	return c
}

func (c *chains) bucket(hash uint64) uint32 { return uint32(hash) & uint32(len(c.heads)-1) }

// walk is a position in a chain.
type walk struct {
	c      *chains
	bucket uint32
	at     uint32
	hops   int
}

// walk starts at the head of a bucket's chain.
func (c *chains) walk(bucket uint32) walk {
	return walk{c: c, bucket: bucket, at: c.heads[bucket].Load()}
}

// entry returns the entry at the position; ok is false at the end of the chain.
func (w *walk) entry() (i uint32, ok bool) {
	for w.at&endOfChain != 0 {
		if w.at == endOfChain|w.bucket || w.hops > maxHops {
			return 0, false
		}
		w.hops++
		w.at = w.c.heads[w.bucket].Load()
	}
	return w.at, w.hops <= maxHops
}

// step moves to the next entry.
func (w *walk) step() {
	w.hops++
	w.at = w.c.next[w.at].Load()
}

// insert adds an entry that is in no chain to the head of one. Only one goroutine may
// insert and remove at a time.
func (c *chains) insert(bucket, i uint32) {
	c.next[i].Store(c.heads[bucket].Load())
	c.heads[bucket].Store(i)
}

// remove removes an entry from a chain and reports whether it was there. Only one
// goroutine may insert and remove at a time.
func (c *chains) remove(bucket, i uint32) bool {
	link := &c.heads[bucket]
	for at := link.Load(); at&endOfChain == 0; at = link.Load() {
		if at == i {
			link.Store(c.next[i].Load())
			return true
		}
		link = &c.next[at]
	}
	return false
}

// freeList allocates the entries of a table: first those never used, then those freed
// longest ago. The link functions return the place where a free entry stores its successor.
type freeList struct {
	size        uint32
	fresh       uint32 // the first entry never used
	used        uint32 // number of entries in use
	first, last uint32 // of the list of freed entries
	back        uint32 // length of that list
}

// take returns a free entry; ok is false when there is none.
func (f *freeList) take(link func(i uint32) *uint32) (i uint32, ok bool) {
	switch {
	case f.fresh < f.size:
		i = f.fresh
		f.fresh++
	case f.back > 0:
		i = f.first
		f.first = *link(i)
		f.back--
	default:
		return 0, false
	}
	f.used++
	return i, true
}

// give frees an entry.
func (f *freeList) give(i uint32, link func(i uint32) *uint32) {
	if f.back == 0 {
		f.first = i
	} else {
		*link(f.last) = i
	}
	f.last = i
	f.back++
	f.used--
}
