package capture

import (
	"net/netip"
	"sync/atomic"
	"time"
)

// Limits of a capture.
const (
	// MaxPacket is the maximum number of bytes kept of a packet; no IP packet is longer.
	MaxPacket = 256 << 10
	// ringSize is the size of the queue for the writer in bytes: some milliseconds under load.
	ringSize = 8 << 20
	// room is the number of bytes after which one call of Append stops.
	room = 256 << 10
)

// Recorder is one running capture. Packet and Datagram are for the packet path: any number of goroutines may call them, and
// they neither allocate nor lock nor wait. The other methods are for one goroutine.
type Recorder struct {
	interfaces []Interface
	filter     Filter
	limit      int
	ring       *Ring
	counts     []counts // by interface
	left       int      // packets still to append
	told       uint64   // lost packets in the last AppendStatistics
}

// counts are the counters of one interface since the start.
type counts struct {
	matched atomic.Uint64 // packets that the filter keeps
	lost    atomic.Uint64 // of these, packets that did not fit the ring
}

// NewRecorder returns a recorder. limit is the maximum number of bytes per packet, packets the maximum number of packets; 0
// means no limit.
func NewRecorder(interfaces []Interface, filter Filter, limit, packets int) *Recorder {
	if limit <= 0 || limit > MaxPacket {
		limit = MaxPacket
	}
	if packets <= 0 {
		packets = -1 // never counts down to 0
	}
	return &Recorder{
		interfaces: interfaces, filter: filter, limit: limit, ring: NewRing(ringSize),
		counts: make([]counts, len(interfaces)), left: packets,
	}
}

// Packet records an IP packet at an interface. A malformed packet is kept only if the filter is empty.
func (r *Recorder) Packet(in int, now time.Time, ip []byte) {
	if !r.filter.KeepsAll() {
		v, ok := viewOf(ip)
		if !ok || !r.filter.Match(&v) {
			return
		}
	}
	r.put(in, now, ip, nil, nil)
}

// Datagram records a UDP datagram whose payload is head and body.
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

// AppendBeginning appends the header of the file.
func (r *Recorder) AppendBeginning(b []byte) []byte {
	return appendSection(b, r.interfaces, r.limit)
}

// Append appends queued packets, and reports whether more may be queued.
func (r *Recorder) Append(b []byte) (_ []byte, more bool) {
	for begun := len(b); len(b)-begun < room; {
		c, ok := r.ring.peek()
		if !ok || r.Done() { // the rest of the ring is discarded
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

// Done reports whether the maximum number of packets is reached.
func (r *Recorder) Done() bool { return r.left == 0 }

// LostMore reports whether packets were lost since the last statistics.
func (r *Recorder) LostMore() bool { return r.lost() != r.told }

func (r *Recorder) lost() (n uint64) {
	for i := range r.counts {
		n += r.counts[i].lost.Load()
	}
	return n
}

// AppendStatistics appends the current statistics. The last ones in a file count.
func (r *Recorder) AppendStatistics(b []byte, now time.Time) []byte {
	r.told = r.lost()
	for i := range r.counts {
		c := &r.counts[i]
		b = appendStatistics(b, i, now.UnixNano(), c.matched.Load(), c.lost.Load())
	}
	return b
}
