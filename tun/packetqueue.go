package tun

import "sync"

// maxQueuedPackets limits the packets of each of the two kinds that wait for one link's Read: ICMP
// errors and packets of the host stack, both rare compared to forwarded traffic.
const maxQueuedPackets = 256

// packetQueue is a bounded queue of packets for the tunnel that do not come from the overlay.
// Any goroutine may call put, only the link's Read calls take.
type packetQueue struct {
	mu      sync.Mutex
	control [][]byte // between the hosts of a link: probes and control streams; taken first
	packets [][]byte // all others
}

// put queues a copy of b. It reports false when the queue is full.
func (q *packetQueue) put(b []byte, control bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	packets := &q.packets
	if control {
		packets = &q.control
	}
	if len(*packets) == maxQueuedPackets {
		return false
	}
	*packets = append(*packets, append([]byte(nil), b...))
	return true
}

// take moves packets into bufs at offset and returns their number.
func (q *packetQueue) take(bufs [][]byte, sizes []int, offset int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := 0
	for _, packets := range [...]*[][]byte{&q.control, &q.packets} {
		n := min(len(*packets), len(bufs)-taken)
		for _, p := range (*packets)[:n] {
			sizes[taken] = copy(bufs[taken][offset:], p)
			taken++
		}
		rest := copy(*packets, (*packets)[n:])
		clear((*packets)[rest:])
		*packets = (*packets)[:rest]
	}
	return taken
}
