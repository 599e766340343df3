package nat

import "sync/atomic"

// chains are the collision chains of a hash table whose entries are numbers.
// Any number of goroutines walk them without a lock while one inserts and removes.
//
// A removed entry keeps its link, so that who stands on it finds the way. If it
// is used again, that way leads into another chain; each chain's end therefore
// says whose end it is, and who arrives at a foreign one starts over. So a walk
// never misses what was in its chain all the while.
type chains struct {
	heads []atomic.Uint32 // by bucket: an entry, or the chain's end
	next  []atomic.Uint32 // by entry: an entry, or the chain's end
}

const (
	endOfChain = 1 << 31 // with the number of the bucket

	// maxHops bounds a walk with all its fresh starts. Chains are as long as
	// chance makes them, which for a full table is below 20.
	maxHops = 1024
)

// newChains makes chains for entries 0 to n-1, one on average if all are in use.
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

// walk is a place in a chain.
type walk struct {
	c      *chains
	bucket uint32
	at     uint32
	hops   int
}

// walk begins at the head of a bucket's chain.
func (c *chains) walk(bucket uint32) walk {
	return walk{c: c, bucket: bucket, at: c.heads[bucket].Load()}
}

// entry is where the walk is; ok is false at its end.
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

// step goes on to the next entry.
func (w *walk) step() {
	w.hops++
	w.at = w.c.next[w.at].Load()
}

// insert puts an entry that is in no chain at the head of one. One goroutine at
// a time.
func (c *chains) insert(bucket, i uint32) {
	c.next[i].Store(c.heads[bucket].Load())
	c.heads[bucket].Store(i)
}

// remove takes an entry out of a chain and reports whether it was there. One
// goroutine at a time, the one that inserts.
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

// freeList hands out the entries of a table: those that were never used, then
// those whose use ended longest ago. links says where an unused entry keeps its
// successor.
type freeList struct {
	size        uint32
	fresh       uint32 // entries from here on were never used
	used        uint32 // how many are in use
	first, last uint32 // of those that were given back
	back        uint32 // how many those are
}

// take gives an unused entry; ok is false when there is none.
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

// give takes an entry back.
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
