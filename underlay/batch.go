//go:build linux

package underlay

import (
	"math/bits"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSegments is the maximum number of datagrams per UDP_SEGMENT message
	// (UDP_MAX_SEGMENTS in kernels before 6.9; later ones accept 128).
	maxSegments = 64

	// maxMessage is the payload of the largest IPv4 packet: 65535 - 20 (IPv4) - 8
	// (UDP) bytes. IPv6 would allow 20 more.
	maxMessage = 65507
)

// Batch collects datagrams and sends them with few system calls. Datagrams of equal size and ECN
// field from one socket to one destination become one UDP_SEGMENT message, even if datagrams to
// others come in between; all messages of a socket are sent by one sendmmsg. Nothing is copied:
// head and body stay in the caller's memory.
//
// Datagrams for the same socket and destination are sent in the order in which they were added. A
// Batch is for one goroutine at a time. Only NewBatch allocates.
type Batch struct {
	datagrams []datagram
	groups    []group // the later messages, in the order of their first datagram
	senders   []sender
	latest    []int32 // hash table: the newest group of each socket and destination, plus one
	shift     int     // of a 32-bit hash, to an index of latest

	// The messages that Flush lays out for the kernel.
	vectors  []unix.Iovec
	messages []message
	controls []controls
	order    []int32 // order[i] is the group that messages[i] is made of
	single   [maxSegments]message
	header   controls // the control messages of each message of single

	sent, dropped int    // since the last Flush
	droppedBytes  uint64 // since the last Flush
	lost          uint64 // droppedBytes that the last Flush reported
	lastError     unix.Errno
	wait          time.Duration // for send buffer space, in each Flush
	patience      time.Duration // what is left of it

	send func(fd int, messages []message) (n int, errno unix.Errno) // sendmmsg
}

// datagram is one datagram of a group.
type datagram struct {
	head, body []byte
	next       int32 // the group's next datagram
}

func (d *datagram) size() int { return len(d.head) + len(d.body) }

// parts returns the number of non-empty slices among head and body.
func (d *datagram) parts() int { return min(len(d.head), 1) + min(len(d.body), 1) }

// group is a sequence of datagrams that fit one message.
type group struct {
	socket      *Socket
	to          *Destination
	first, last int32 // datagrams
	count       int   // datagrams
	segment     int   // bytes of every datagram except the last, which may be shorter
	bytes       int   // of all datagrams
	vectors     int   // index of the first of them, set by layOut
	next        int32 // the next group of the same socket
	ecn         uint8 // of the outer header of all
}

// sender is a socket with the groups to send through it.
type sender struct {
	socket      *Socket
	first, last int32 // groups
}

// none ends a list of datagrams or groups.
const none = -1

// NewBatch returns a batch of up to capacity datagrams, at least one. With 128 it uses about 50
// KiB.
func NewBatch(capacity int) *Batch {
	capacity = max(capacity, 1)
	b := &Batch{
		datagrams: make([]datagram, 0, capacity),
		groups:    make([]group, 0, capacity),
		senders:   make([]sender, 0, capacity),
		vectors:   make([]unix.Iovec, 0, 2*capacity),
		messages:  make([]message, capacity),
		controls:  make([]controls, capacity),
		order:     make([]int32, 0, capacity),
		send:      sendmmsg,
		wait:      maxWait,
	}
	// At least twice as many slots as keys: a lookup takes one or two steps.
	width := bits.Len(uint(2*capacity - 1))
	b.latest = make([]int32, 1<<width)
	b.shift = 32 - width
	return b
}

// Add adds a datagram made of head, which may be nil, and body. The memory of both, and *to, must
// stay unchanged until Flush returns. A full batch is flushed first.
func (b *Batch) Add(s *Socket, to *Destination, head, body []byte) {
	b.AddMarked(s, to, 0, head, body)
}

// AddMarked is Add with a value for the ECN field of the outer IP header (RFC 3168 section 5), two
// bits; 0 is Not-ECT.
func (b *Batch) AddMarked(s *Socket, to *Destination, ecn uint8, head, body []byte) {
	if len(b.datagrams) == cap(b.datagrams) {
		b.transmit()
	}
	added := int32(len(b.datagrams))
	b.datagrams = append(b.datagrams, datagram{head: head, body: body, next: none})
	size := b.datagrams[added].size()

	slot := b.find(s, to)
	if *slot != 0 {
		if g := &b.groups[*slot-1]; g.accepts(size, ecn) {
			b.datagrams[g.last].next = added
			g.last = added
			g.count++
			g.bytes += size
			return
		}
	}
	b.groups = append(b.groups, group{
		socket: s, to: to, first: added, last: added,
		count: 1, segment: size, bytes: size, ecn: ecn, next: none,
	})
	*slot = int32(len(b.groups))
	b.assign(s, *slot-1)
}

// find returns the slot of the table for a socket and a destination, which is 0 if they have no
// group yet. Destinations are compared by value.
func (b *Batch) find(s *Socket, to *Destination) *int32 {
	mask := uint32(len(b.latest) - 1)
	for i := ((s.hash ^ to.hash) * hashFactor) >> b.shift; ; i++ {
		slot := &b.latest[i&mask]
		if *slot == 0 {
			return slot
		}
		if g := &b.groups[*slot-1]; g.socket == s && (g.to == to || *g.to == *to) {
			return slot
		}
	}
}

// accepts reports whether a datagram may join the group: only the last one of a message may be
// shorter than the others, an empty one would get lost, and a message has one outer header.
func (g *group) accepts(size int, ecn uint8) bool {
	ended := g.bytes < g.count*g.segment
	return !ended && size > 0 && size <= g.segment && ecn == g.ecn &&
		g.count < maxSegments && g.bytes+size <= maxMessage && g.socket.gso.Load()
}

// assign adds a new group after the other groups of its socket. There are few sockets, and a batch
// has fewer groups than datagrams, so linear search is enough.
func (b *Batch) assign(s *Socket, added int32) {
	for i := range b.senders {
		if b.senders[i].socket == s {
			b.groups[b.senders[i].last].next = added
			b.senders[i].last = added
			return
		}
	}
	b.senders = append(b.senders, sender{socket: s, first: added, last: added})
}

// sendAll adds complete datagrams and flushes.
func (b *Batch) sendAll(s *Socket, to *Destination, datagrams [][]byte) (sent, dropped int) {
	for _, d := range datagrams {
		b.Add(s, to, nil, d)
	}
	return b.Flush()
}

// Flush sends the batch. It returns how many datagrams the kernel accepted and how many it refused
// or had no buffer space for, since the last Flush. It may wait for buffer space, up to 10 ms in
// total, after it has sent what other sockets can take.
func (b *Batch) Flush() (sent, dropped int) {
	b.transmit()
	sent, dropped = b.sent, b.dropped
	b.lost = b.droppedBytes
	b.sent, b.dropped, b.droppedBytes = 0, 0, 0
	return sent, dropped
}

// NeverWait makes Flush drop at once what finds a send queue full. It is for senders that hold a lock.
func (b *Batch) NeverWait() { b.wait = 0 }

// DroppedBytes returns the size of the datagrams that the last Flush reported as dropped, heads
// included.
func (b *Batch) DroppedBytes() uint64 { return b.lost }
