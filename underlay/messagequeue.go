//go:build linux

package underlay

import "sync"

// Limits of a messageQueue: as much as the largest Fill can bring at once. The memory grows on demand.
const (
	maxQueuedMessages = 4096
	maxQueuedBytes    = 4 << 20
)

// messageQueue holds datagrams that another session received for this one. One goroutine puts while
// another takes; datagrams already taken over are read without the lock.
type messageQueue struct {
	mu      sync.Mutex // protects waiting
	waiting messages

	taken messages // owned by the goroutine that takes
	next  int      // the first unread datagram of taken
}

// messages are datagrams stored in one buffer.
type messages struct {
	bytes []byte
	ends  []int // where each datagram ends in bytes
	from  []*Endpoint
}

func (l *messages) reset() {
	clear(l.from)
	l.bytes, l.ends, l.from = l.bytes[:0], l.ends[:0], l.from[:0]
}

// put copies a datagram into the queue. It reports false if the queue is full.
func (in *messageQueue) put(datagram []byte, from *Endpoint) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	w := &in.waiting
	if len(w.ends) == maxQueuedMessages || len(w.bytes)+len(datagram) > maxQueuedBytes {
		return false
	}
	w.bytes = append(w.bytes, datagram...)
	w.ends = append(w.ends, len(w.bytes))
	w.from = append(w.from, from)
	return true
}

// take returns the next datagram in order of arrival. Its memory is valid until the next take.
func (in *messageQueue) take() (datagram []byte, from *Endpoint, ok bool) {
	if in.next == len(in.taken.ends) {
		in.taken.reset()
		in.next = 0
		in.mu.Lock()
		in.taken, in.waiting = in.waiting, in.taken
		in.mu.Unlock()
		if len(in.taken.ends) == 0 {
			return nil, nil, false
		}
	}
	start := 0
	if in.next > 0 {
		start = in.taken.ends[in.next-1]
	}
	datagram, from = in.taken.bytes[start:in.taken.ends[in.next]], in.taken.from[in.next]
	in.next++
	return datagram, from, true
}
