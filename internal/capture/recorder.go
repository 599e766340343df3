package capture

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Bounds of a capture.
const (
	// MaxPacket is the most that is kept of a packet, bytes: any IP packet is shorter.
	MaxPacket = 256 << 10
	// ringSize is how much waits for whoever writes the file, bytes: what a loaded
	// gateway moves in some milliseconds.
	ringSize = 8 << 20
	// room is how much one call of Append appends before it leaves the rest to the next
	// one, bytes.
	room = 256 << 10
)

// Recorder is one capture under way. Packet and Datagram belong to the packet path: any
// number of goroutines call them, and they allocate nothing, take no lock and never wait.
// The rest is for one goroutine.
type Recorder struct {
	interfaces []Interface
	filter     Filter
	limit      int
	ring       *Ring
	counts     []counts // by interface
	left       int      // packets to append yet
	told       uint64   // lost packets that AppendStatistics told last
}

// counts are of one interface, since the beginning.
type counts struct {
	matched atomic.Uint64 // packets that the filter keeps
	lost    atomic.Uint64 // of these, packets without room
}

// NewRecorder makes a recorder. limit is how many bytes are kept of a packet, packets how
// many packets there may be; 0 is no limit.
func NewRecorder(interfaces []Interface, filter Filter, limit, packets int) *Recorder {
	if limit <= 0 || limit > MaxPacket {
		limit = MaxPacket
	}
	if packets <= 0 {
		packets = -1 // never comes down to 0
	}
	return &Recorder{
		interfaces: interfaces, filter: filter, limit: limit, ring: NewRing(ringSize),
		counts: make([]counts, len(interfaces)), left: packets,
	}
}

// Packet records an IP packet that was seen at an interface. The packet may be malformed:
// then it is kept if everything is.
func (r *Recorder) Packet(in int, now time.Time, ip []byte) {
	if !r.filter.KeepsAll() {
		v, ok := viewOf(ip)
		if !ok || !r.filter.Match(&v) {
			return
		}
	}
	r.put(in, now, ip, nil, nil)
}

// Datagram records a UDP datagram, whose payload is head and body.
func (r *Recorder) Datagram(in int, now time.Time, src, dst netip.AddrPort, head, body []byte) {
	payload := len(head) + len(body)
	if !r.filter.KeepsAll() {
		v := viewOfDatagram(src, dst, payload)
		if !r.filter.Match(&v) {
			return
		}
	}
	var outer [maxOuter]byte
	r.put(in, now, appendOuter(outer[:0], src, dst, payload), head, body)
}

func (r *Recorder) put(in int, now time.Time, one, two, three []byte) {
	r.counts[in].matched.Add(1)
	if !r.ring.put(uint8(in), now, r.limit, one, two, three) {
		r.counts[in].lost.Add(1)
	}
}

// AppendBeginning appends what the file begins with.
func (r *Recorder) AppendBeginning(b []byte) []byte {
	return appendSection(b, r.interfaces, r.limit)
}

// Append appends packets that wait, and reports whether there may be more of them at once.
func (r *Recorder) Append(b []byte) (_ []byte, more bool) {
	for begun := len(b); len(b)-begun < room; {
		c, ok := r.ring.peek()
		if !ok || r.Done() { // what is left in the ring goes with it
			return b, false
		}
		in := &r.interfaces[c.in]
		if in.Datagrams && len(c.data) == c.original {
			sumOuter(c.data)
		}
		b = appendPacket(b, int(c.in), in.Outbound, c.time, c.original, c.data)
		r.ring.free(c)
		if r.left > 0 {
			r.left--
		}
	}
	return b, true
}

// Done reports whether there are as many packets as there may be.
func (r *Recorder) Done() bool { return r.left == 0 }

// LostMore reports whether packets were lost since the last statistics.
func (r *Recorder) LostMore() bool { return r.lost() != r.told }

func (r *Recorder) lost() (n uint64) {
	for i := range r.counts {
		n += r.counts[i].lost.Load()
	}
	return n
}

// AppendStatistics appends what was counted so far. The last of them in a file are the
// ones that hold.
func (r *Recorder) AppendStatistics(b []byte, now time.Time) []byte {
	r.told = r.lost()
	for i := range r.counts {
		c := &r.counts[i]
		b = appendStatistics(b, i, now.UnixNano(), c.matched.Load(), c.lost.Load())
	}
	return b
}
