package capture

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

const (
	// cell is what memory in a ring is given out in, bytes: a cache line.
	cell = 64
	// prefix is what stands before a packet: time 8, original length 4, length 4,
	// interface 1, bytes.
	prefix = 17
)

// What a ring's mark says of the cells that begin there.
const (
	unwritten uint32 = iota
	written          // a record
	unused           // nothing up to the end of the ring
)

// Ring is a queue of packets in memory of fixed size. Any number of goroutines put,
// without a lock and without waiting for each other or for the one that takes.
//
//	tail                          head
//	  ▼                             ▼
//	..[record   ][record ][ writing ]......    in cells; marks[i] is about what begins at cell i
type Ring struct {
	data  []byte
	marks []atomic.Uint32
	head  atomic.Uint64 // cells given out since the beginning
	tail  atomic.Uint64 // of these, cells given back
}

// NewRing makes a ring of at least so many bytes.
func NewRing(bytes int) *Ring {
	cells := 1
	for cells*cell < bytes {
		cells *= 2
	}
	return &Ring{data: make([]byte, cells*cell), marks: make([]atomic.Uint32, cells)}
}

// put copies a packet that is in three parts, any of which may be empty, up to limit bytes
// of it. It reports false when there is no room.
func (r *Ring) put(in uint8, now time.Time, limit int, one, two, three []byte) bool {
	original := len(one) + len(two) + len(three)
	kept := min(original, limit)
	at, ok := r.reserve((prefix + kept + cell - 1) / cell)
	if !ok {
		return false
	}
	b := r.data[at*cell:]
	binary.LittleEndian.PutUint64(b, uint64(now.UnixNano()))
	binary.LittleEndian.PutUint32(b[8:], uint32(original))
	binary.LittleEndian.PutUint32(b[12:], uint32(kept))
	b[16] = in
	b = b[prefix : prefix+kept]
	b = b[copy(b, one):]
	b = b[copy(b, two):]
	copy(b, three)
	r.marks[at].Store(written)
	return true
}

// reserve gives out cells side by side, and the first of them.
func (r *Ring) reserve(cells int) (at int, ok bool) {
	all := uint64(len(r.marks))
	for {
		tail := r.tail.Load() // before head, so that it is never ahead of it
		head := r.head.Load()
		at, rest := head%all, uint64(0)
		if at+uint64(cells) > all {
			rest = all - at // a record never goes around
		}
		end := head + rest + uint64(cells)
		if end-tail > all {
			return 0, false
		}
		if !r.head.CompareAndSwap(head, end) {
			continue
		}
		if rest == 0 {
			return int(at), true
		}
		r.marks[at].Store(unused)
		return 0, true
	}
}

// record is a packet in a ring.
type record struct {
	data     []byte // the ring's until free
	time     int64  // nanoseconds since the epoch
	original int    // bytes of the packet, of which data may be the beginning
	in       uint8  // interface
	end      uint64 // tail behind it
}

// peek gives the oldest record. Only one goroutine takes; it calls free before the next
// peek. What is behind a record that is still being written waits for it.
func (r *Ring) peek() (record, bool) {
	tail, all := r.tail.Load(), uint64(len(r.marks))
	if r.marks[tail%all].Load() == unused {
		r.marks[tail%all].Store(unwritten)
		tail += all - tail%all
		r.tail.Store(tail)
	}
	if r.marks[tail%all].Load() != written {
		return record{}, false
	}
	b := r.data[tail%all*cell:]
	kept := int(binary.LittleEndian.Uint32(b[12:]))
	return record{
		data:     b[prefix : prefix+kept],
		time:     int64(binary.LittleEndian.Uint64(b)),
		original: int(binary.LittleEndian.Uint32(b[8:])),
		in:       b[16],
		end:      tail + uint64((prefix+kept+cell-1)/cell),
	}, true
}

// free gives a record's memory back.
func (r *Ring) free(c record) {
	all := uint64(len(r.marks))
	r.marks[r.tail.Load()%all].Store(unwritten)
	r.tail.Store(c.end)
}
