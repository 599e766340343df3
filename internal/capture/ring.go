package capture

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

const (
	// cell is the allocation unit of a ring in bytes: a cache line.
	cell = 64
	// prefix is the length of a record's header: time 8, original length 4, length 4, interface 1, bytes.
	prefix = 17
)

// The marks of a ring's cells: what starts there.
const (
	unwritten uint32 = iota
	written          // a record
	unused           // unused up to the end of the ring
)

// Ring is a queue of packets in a fixed amount of memory. Any number of goroutines may put, without locks and without
// waiting for each other or for the reader.
//
//	tail                          head
//	  ▼                             ▼
//	..[record   ][record ][ writing ]......    in cells; marks[i] is about what begins at cell i
type Ring struct {
	data  []byte
	marks []atomic.Uint32
	head  atomic.Uint64 // cells allocated since the start
	tail  atomic.Uint64 // cells freed since the start
}

// NewRing returns a ring of at least so many bytes.
func NewRing(bytes int) *Ring {
	cells := 1
	for cells*cell < bytes {
		cells *= 2
	}
	return &Ring{data: make([]byte, cells*cell), marks: make([]atomic.Uint32, cells)}
}

// put copies up to limit bytes of a packet in three parts, or reports that the ring is full.
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

// reserve allocates adjacent cells and returns the first.
func (r *Ring) reserve(cells int) (at int, ok bool) {
	all := uint64(len(r.marks))
	for {
		tail := r.tail.Load() // before head, so that it is never ahead of it
		head := r.head.Load()
		at, rest := head%all, uint64(0)
		if at+uint64(cells) > all {
			rest = all - at // a record never wraps around
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
	data     []byte // memory of the ring, valid until free
	time     int64  // nanoseconds since the epoch
	original int    // length of the packet; data may be shorter
	in       uint8  // interface
	end      uint64 // tail behind it
}

// peek returns the oldest record. Only one goroutine may call it, and free before the next peek. Records after one that is
// still being written wait for it.
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

// free frees a record's memory.
func (r *Ring) free(c record) {
	all := uint64(len(r.marks))
	r.marks[r.tail.Load()%all].Store(unwritten)
	r.tail.Store(c.end)
}
