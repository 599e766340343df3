package tun

import "sync"

// packetKind is the kind of a packet that the device has not read from the overlay, in the order in which
// they are sent.
type packetKind int

const (
	controlPacket packetKind = iota // between the hosts of a link: probes and control streams
	ownPacket                       // of the gateway: of its host stack, and ICMP errors
	handedOver                      // of a node, by another link
	packetKinds
)

// maxQueued limits the packets that wait for one link's Read. ICMP errors and probes are rare compared to forwarded
// traffic; what the device that reads the overlay hands over may be all of it, and without nodes the host stack sends all
// traffic.
var maxQueued = [packetKinds]int{controlPacket: 256, ownPacket: 1024, handedOver: 4096}

// packetQueue is a bounded queue of packets for the tunnel that the device has not read from the overlay.
// Any goroutine may call put, only the link's Read calls take.
type packetQueue struct {
	mu      sync.Mutex
	packets [packetKinds][][]byte
	free    [][]byte // memory of packets that were sent, so that others need no new one
}

// put queues a copy of b. It reports false when the queue is full.
func (q *packetQueue) put(b []byte, kind packetKind) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.packets[kind]) == maxQueued[kind] {
		return false
	}
	var memory []byte
	if last := len(q.free) - 1; kind != controlPacket && last >= 0 {
		memory, q.free = q.free[last], q.free[:last]
	}
	q.packets[kind] = append(q.packets[kind], append(memory[:0], b...))
	return true
}

// take moves packets into bufs at offset, at most so many of those handed over. It returns the number of all, and of those, and
// whether more of those wait.
func (q *packetQueue) take(bufs [][]byte, sizes []int, offset, most int) (taken, handed int, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for kind := range q.packets {
		packets := &q.packets[kind]
		n := min(len(*packets), len(bufs)-taken)
		if packetKind(kind) == handedOver {
			n = min(n, max(most, 0))
			handed = n
		}
		for _, p := range (*packets)[:n] {
			sizes[taken] = copy(bufs[taken][offset:], p)
			taken++
		}
		if packetKind(kind) != controlPacket {
			q.free = append(q.free, (*packets)[:n]...)
		}
		rest := copy(*packets, (*packets)[n:])
		clear((*packets)[rest:])
		*packets = (*packets)[:rest]
	}
	return taken, handed, len(q.packets[handedOver]) > 0
}

// discard removes all packets of a kind, and returns their number.
func (q *packetQueue) discard(kind packetKind) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.packets[kind])
	q.packets[kind] = nil
	return n
}
