package packet

import (
	"sync/atomic"
	"time"
)

// Reassembly puts fragments together, RFC 791 section 3.2 and RFC 8200 section
// 4.5, in memory that never grows:
//
//	whole, largest, fault := r.Add(b, &ip, now)
//
// A fragment costs a look-up and the copying of its payload, however many came
// before it and in whatever order.
//
// Fragments that contradict each other, by overlapping or about the end of the
// datagram, end the whole datagram (RFC 5722; for IPv4 too, RFC 1858 and 3128).
// Exact duplicates are ignored. What still comes of a datagram that was refused
// is refused for the same reason, until its time is over or its place is needed.
//
// When memory runs out, who waits for most loses first: the oldest datagram of
// the source that has most datagrams waiting, whichever packet asks. A flood
// from one address takes from itself, then; in a flood from many addresses each
// datagram has the time that the flood takes to fill the memory, and those whose
// fragments come one behind the other complete. At the limit of one source its
// oldest makes way for its newest: of a sender on a lossy path, what waits
// longest will hardly come.
//
// Not for concurrent use, but for Stats.
type Reassembly struct {
	timeout   time.Duration
	perSource int
	seed      [2]uint64
	epoch     time.Time // the first fragment's; what the ages of datagrams count from

	datagrams     []incomplete // [0] is nobody, here and in the other arrays
	freeDatagrams []uint16
	byKey         []uint16 // heads of chains through incomplete.chain, by hash
	ages          rings    // all datagrams, oldest first; head 0
	siblings      rings    // datagrams of one source, oldest first; heads by siblingsOf. Refused ones are nobody's

	sources     []source
	freeSources []uint16
	byAddress   []uint16 // heads of chains through source.chain, by hash
	ranks       rings    // sources with equally many datagrams; heads by rankOf
	fullest     int      // most datagrams that a source has waiting

	blocks blocks
	out    []byte // where the datagram is put together

	waiting, bytes, timedOut, evicted atomic.Int64
}

// ReassemblyConfig bounds a Reassembly.
type ReassemblyConfig struct {
	Bytes     int           // memory in all, with that for the result; below 256 KiB counts as that, above 32 MiB is not used
	Timeout   time.Duration // how long a datagram waits for its fragments, from the first to come
	PerSource int           // datagrams of one source address that may wait at once; below 1 counts as 1
	Seed      [2]uint64     // of the hash; senders must not be able to guess it
}

// Of the memory, for each datagram that may wait: itself, its share of the
// tables, and blocks for 2 KiB, which is what a packet slightly too long for its
// link comes to. Longer ones take more than their share.
const (
	blocksPerDatagram  = 4
	bytesPerDatagram   = 2560 // blocksPerDatagram*530, 344 for its state, 64 for the tables, rounded up
	minReassemblyBytes = 256 << 10
	maxReassemblyBytes = 32 << 20 // blocks are numbered with 16 bits
)

// NewReassembly allocates everything that r will ever use.
func NewReassembly(c ReassemblyConfig) *Reassembly {
	memory := min(max(c.Bytes, minReassemblyBytes), maxReassemblyBytes)
	n := (memory - MaxLen) / bytesPerDatagram
	perSource := min(max(c.PerSource, 1), n)
	r := &Reassembly{
		timeout: c.Timeout, perSource: perSource, seed: c.Seed,
		datagrams: make([]incomplete, n+1), freeDatagrams: numbers(n), byKey: make([]uint16, hashSize(n)),
		ages: newRings(n + 1), siblings: newRings(n + 1 + n + 1),
		sources: make([]source, n+1), freeSources: numbers(n), byAddress: make([]uint16, hashSize(n)),
		ranks:  newRings(n + 1 + perSource),
		blocks: newBlocks(n * blocksPerDatagram),
		out:    make([]byte, MaxLen),
	}
	return r
}

// ReassemblyFault says why Add gives no datagram. The zero value means that it does.
type ReassemblyFault uint8

// What can come of a fragment.
const (
	ReassemblyWhole   ReassemblyFault = iota // it was the last that was missing
	ReassemblyHeld                           // kept until the others come, or had already
	ReassemblyMemory                         // no room: its datagram was the one to go
	ReassemblyOverlap                        // contradicts the fragments before it
	ReassemblyTooLong                        // more than 65535 bytes in all, or than 512 of headers in each IPv6 fragment
	ReassemblyTiny                           // cuts through the header of the upper layer, RFC 1858 section 3 and RFC 7112
	ReassemblyECN                            // some fragments can carry congestion marks and some cannot, RFC 3168 section 5.3
)

// Add takes the packet b that Parse filled ip from, and copies what it needs.
//
// With the last fragment missing it returns the datagram: the headers of its
// first fragment, without anything of the fragmentation (IPv4: MF and offset
// are 0; IPv6: no fragment header), and the payload of all. DF is set when any
// fragment had it, and congestion that any of them met is marked. whole belongs
// to r and is valid until the next call; it may be edited. largest is the length
// in bytes of the longest fragment as it came: to pass the datagram on in pieces
// no longer than its sender thought right, cut it by that.
//
// Of a packet that is no fragment it returns a copy. An IPv6 packet with a
// fragment header that is the only fragment (RFC 6946) comes without that
// header, whatever else waits under its identification.
func (r *Reassembly) Add(b []byte, ip *IP, now time.Time) (whole []byte, largest int, fault ReassemblyFault) {
	if ip.Fragment == Unfragmented {
		return r.putUnfragmented(b, ip), int(ip.Len), ReassemblyWhole
	}
	if cutsUpperHeader(b, ip) {
		return nil, 0, ReassemblyTiny
	}
	f := readPart(b, ip)
	t := r.since(now)
	r.expire(t, 2) // more than can come, so that none stay
	d := r.find(&f.key)
	if d != 0 && r.isOver(d, t) {
		r.lose(d, t)
		d = 0
	}
	if d == 0 {
		d = r.begin(&f.key, t)
	}

	g := &r.datagrams[d]
	if g.refused != ReassemblyWhole {
		return nil, 0, g.refused
	}
	switch fault = r.join(d, &f); fault {
	case ReassemblyHeld:
		return nil, 0, fault
	case ReassemblyWhole:
		whole, largest = r.putWhole(g), int(g.largest)
		r.forget(d)
		return whole, largest, fault
	}
	r.refuse(d, fault)
	return nil, 0, fault
}

// Expire forgets what has waited too long. Add does so too, little by little, so
// this is for owners who want memory and Stats to be right without fragments
// coming.
func (r *Reassembly) Expire(now time.Time) { r.expire(r.since(now), len(r.datagrams)) }

// ReassemblyStats is what a Reassembly holds, and what it has lost.
type ReassemblyStats struct {
	Datagrams int64 // waiting for fragments
	Bytes     int64 // of memory that they take
	TimedOut  int64 // ever, counted when found
	Evicted   int64 // ever given up to make room for others
}

// Stats may be called beside everything else; its figures are not of one instant.
func (r *Reassembly) Stats() ReassemblyStats {
	return ReassemblyStats{
		Datagrams: r.waiting.Load(), Bytes: r.bytes.Load(),
		TimedOut: r.timedOut.Load(), Evicted: r.evicted.Load(),
	}
}

// since is the time of now as the ages of datagrams have it.
func (r *Reassembly) since(now time.Time) time.Duration {
	if r.epoch.IsZero() {
		r.epoch = now
	}
	return now.Sub(r.epoch)
}
