package packet

import (
	"sync/atomic"
	"time"
)

// Reassembly reassembles fragments, RFC 791 section 3.2 and RFC 8200 section 4.5, in a
// fixed amount of memory:
//
//	whole, largest, fault := r.Add(b, &ip, now)
//
// A fragment costs one lookup and one copy of its payload, regardless of the number and
// order of the fragments before it.
//
// Fragments that overlap or disagree about the end of the datagram invalidate the whole
// datagram (RFC 5722; for IPv4 also RFC 1858 and RFC 3128). Exact duplicates are ignored.
// Later fragments of a refused datagram are refused for the same reason, until the
// datagram times out or its entry is needed.
//
// When memory runs out, the oldest datagram of the source with most waiting datagrams is
// evicted, regardless of which packet needs the memory. So a flood from one address evicts
// its own datagrams. In a flood from many addresses, each datagram has as much time as the
// flood takes to fill the memory, and datagrams whose fragments arrive back to back
// complete. At the limit of one source, its oldest datagram is evicted for the newest: on
// a lossy path the oldest is the least likely to complete.
//
// Only Stats may be called concurrently.
type Reassembly struct {
	timeout   time.Duration
	perSource int
	seed      [2]uint64
	epoch     time.Time // arrival of the first fragment; the ages of datagrams count from it

	datagrams     []incomplete // [0] is unused, here and in the other arrays
	freeDatagrams []uint16
	byKey         []uint16 // heads of chains through incomplete.chain, by hash
	ages          rings    // all datagrams, oldest first; head 0
	siblings      rings    // datagrams of one source, oldest first; heads by siblingsOf. refused ones have no source

	sources     []source
	freeSources []uint16
	byAddress   []uint16 // heads of chains through source.chain, by hash
	ranks       rings    // sources with equally many datagrams; heads by rankOf
	fullest     int      // the largest number of datagrams that one source has waiting

	blocks blocks
	out    []byte // the reassembled datagram

	waiting, bytes, timedOut, evicted atomic.Int64
}

// ReassemblyConfig configures a Reassembly.
type ReassemblyConfig struct {
	Bytes     int           // total memory, result included; less than 256 KiB counts as 256 KiB, more than 32 MiB is not used
	Timeout   time.Duration // how long a datagram waits for its fragments, counted from its first fragment
	PerSource int           // datagrams of one source address that may wait at once; below 1 counts as 1
	Seed      [2]uint64     // of the hash; senders must not be able to guess it
}

// Memory per waiting datagram: its state, its share of the tables, and blocks for 2 KiB,
// which fits a packet that is slightly too long for its link. Longer datagrams use more
// than their share.
const (
	blocksPerDatagram  = 4
	bytesPerDatagram   = 2560 // blocksPerDatagram*530, 344 for its state, 64 for the tables, rounded up
	minReassemblyBytes = 256 << 10
	maxReassemblyBytes = 32 << 20 // blocks are numbered with 16 bits
)

// NewReassembly returns a Reassembly and allocates all memory that it will use.
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

// ReassemblyFault is the reason why Add returns no datagram. The zero value means that it
// returns one.
type ReassemblyFault uint8

// The outcomes of Add for a fragment.
const (
	ReassemblyWhole   ReassemblyFault = iota // complete: the last missing fragment arrived
	ReassemblyHeld                           // stored until the others arrive, or a duplicate
	ReassemblyMemory                         // out of memory: its datagram was evicted
	ReassemblyOverlap                        // contradicts the fragments before it
	ReassemblyTooLong                        // more than 65535 bytes in all, or than 512 of headers in each IPv6 fragment
	ReassemblyTiny                           // cuts through the header of the upper layer, RFC 1858 section 3 and RFC 7112
	ReassemblyECN                            // some fragments can carry congestion marks and some cannot, RFC 3168 section 5.3
)

// Add takes a packet b, from which Parse filled ip, and copies what it needs.
//
// When the last missing fragment arrives it returns the datagram: the headers of its first
// fragment, without fragmentation fields (IPv4: MF and offset are 0; IPv6: no fragment
// header), and the complete payload. DF is set if any fragment had it, and CE if any
// fragment had it. whole belongs to r and is valid until the next call; the caller may edit
// it. largest is the length in bytes of the longest fragment as received: to forward the
// datagram in pieces no longer than its sender used, fragment it to that size.
//
// For a packet that is not a fragment it returns a copy. An IPv6 packet with a fragment
// header that is the only fragment (RFC 6946) is returned without that header, independent
// of other fragments with the same identification.
func (r *Reassembly) Add(b []byte, ip *IP, now time.Time) (whole []byte, largest int, fault ReassemblyFault) {
	if ip.Fragment == Unfragmented {
		return r.putUnfragmented(b, ip), int(ip.Len), ReassemblyWhole
	}
	if cutsUpperHeader(b, ip) {
		return nil, 0, ReassemblyTiny
	}
	f := readPart(b, ip)
	t := r.since(now)
	r.expire(t, 2) // more than one fragment can add, so that the backlog shrinks
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

// Expire removes datagrams that have timed out. Add also removes some on each call, so
// Expire is only needed to keep memory and Stats accurate while no fragments arrive.
func (r *Reassembly) Expire(now time.Time) { r.expire(r.since(now), len(r.datagrams)) }

// ReassemblyStats are the current state and the losses of a Reassembly.
type ReassemblyStats struct {
	Datagrams int64 // waiting for fragments
	Bytes     int64 // of memory that they use
	TimedOut  int64 // total, counted when found
	Evicted   int64 // total evicted for others
}

// Stats returns statistics. It may be called concurrently with all other methods; the
// values are not a consistent snapshot.
func (r *Reassembly) Stats() ReassemblyStats {
	return ReassemblyStats{
		Datagrams: r.waiting.Load(), Bytes: r.bytes.Load(),
		TimedOut: r.timedOut.Load(), Evicted: r.evicted.Load(),
	}
}

// since converts now to the time base of datagram ages.
func (r *Reassembly) since(now time.Time) time.Duration {
	if r.epoch.IsZero() {
		r.epoch = now
	}
	return now.Sub(r.epoch)
}
