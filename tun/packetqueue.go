package tun

import "sync"

// maxQueuedPackets limits the packets that wait for one link's Read: ICMP errors and packets of
// the host stack, both rare compared to forwarded traffic.
const maxQueuedPackets = 256

// packetQueue is a bounded queue of packets for the tunnel that do not come from the overlay.
// Any goroutine may call put, only the link's Read calls take.
type packetQueue struct {
	mu      sync.Mutex
	packets [][]byte
}

// put queues a copy of b. It reports false when the queue is full.
func (q *packetQueue) put(b []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.packets) == maxQueuedPackets {
		return false
	}
	q.packets = append(q.packets, append([]byte(nil), b...))
	return true
}

// take moves packets into bufs at offset and returns their number.
func (q *packetQueue) take(bufs [][]byte, sizes []int, offset int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := min(len(q.packets), len(bufs))
	for i, p := range q.packets[:n] {
		sizes[i] = copy(bufs[i][offset:], p)
	}
	rest := copy(q.packets, q.packets[n:])
	clear(q.packets[rest:])
	q.packets = q.packets[:rest]
	return n
}
