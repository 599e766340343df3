package tun

import "sync"

// packetKind is the kind of a packet that does not come from the link's own lane, in the order in which
// they are sent.
type packetKind int

const (
	controlPacket packetKind = iota // between the hosts of a link: probes and control streams
	ownPacket                       // of the gateway: of its host stack, and ICMP errors
	handedOver                      // of a node, by another link
	packetKinds
)

// maxQueued limits the packets that wait for one link's Read. ICMP errors and probes are rare compared to forwarded
// traffic; what other links hand over may be a share of it, and without nodes the host stack sends all traffic.
var maxQueued = [packetKinds]int{controlPacket: 256, ownPacket: 1024, handedOver: 1024}

// packetQueue is a bounded queue of packets for the tunnel that do not come from the link's own lane.
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

// take moves packets into bufs at offset and returns their number. Packets handed over take half of bufs
// at most, so that those of the link's own lane do not wait for them.
func (q *packetQueue) take(bufs [][]byte, sizes []int, offset int) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := 0
	for kind := range q.packets {
		packets := &q.packets[kind]
		room := len(bufs) - taken
		if packetKind(kind) == handedOver {
			room = min(room, (len(bufs)+1)/2)
		}
		n := min(len(*packets), room)
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
	return taken
}
