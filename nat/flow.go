package nat

import (
	"sync/atomic"

	"strait.dev/strait/packet"
)

// flow is a mapping and a remote endpoint. 40 bytes, of which a packet reads one or two
// cache lines.
//
// Fields that packets read are atomic. A reader checks life to know that the fields it read
// belong together: life has one generation from before the other fields are written until
// after the flow has ended.
type flow struct {
	life   atomic.Uint64
	hi, lo atomic.Uint64 // address of the remote
	who    atomic.Uint64 // see flowKey
	origin atomic.Uint32

	before uint32 // see Siblings; protected by Masquerade.mu
}

// life is the mutable state of a flow in one word, so that it changes atomically and never
// in a flow that has ended meanwhile.
//
//	63        43 42   41 40  39      32 31             0
//	generation | live | kind | state    | last seen, s |
type life uint64

const (
	lifeState = 32
	lifeKind  = 40
	lifeLive  = 1 << 42
	lifeGen   = 43

	// answered, stored beside the TCP state, marks a flow of any kind that has received a
	// packet from its remote.
	answered = 1 << 7
)

func (l life) last() uint32    { return uint32(l) }
func (l life) state() TCPState { return TCPState(l>>lifeState) &^ answered }
func (l life) answered() bool  { return l>>lifeState&answered != 0 }
func (l life) kind() kind      { return kind(l >> lifeKind & 3) }
func (l life) live() bool      { return l&lifeLive != 0 }

// same reports whether both belong to the same flow, not to a later one in the same entry.
func (l life) same(other life) bool { return l>>lifeGen == other>>lifeGen }

// ended returns the life of an entry without a flow, of the next generation.
func (l life) ended() life { return (l>>lifeGen + 1) << lifeGen }

// begun returns the first life of a flow, in an entry without one.
func (l life) begun(k kind, sec uint32) life {
	return l | lifeLive | life(k)<<lifeKind | life(sec)
}

// after returns the life after a packet. A packet from inside refreshes the flow, one from
// the remote refreshes only a TCP connection (RFC 4787 REQ-6, RFC 7857 section 7). The first
// RST restarts the timer, further ones do not (RFC 7857 sections 2.2, 7.1).
func (l life) after(d Direction, flags uint8, sec uint32) life {
	state, keeps := l.state(), d == Outgoing
	if l.kind() == kindTCP {
		state = state.Next(d, flags)
		keeps = flags&packet.TCPFlagRST == 0 || state != l.state()
	}
	bits := uint8(state)
	if d == Incoming || l.answered() {
		bits |= answered
	}
	last := l.last()
	if keeps {
		last = max(last, sec)
	}
	return l>>lifeKind<<lifeKind | life(bits)<<lifeState | life(last)
}

// timedOut reports whether a flow has been idle for longer than its limit.
func (l life) timedOut(sec uint32) bool {
	return idle(l.last(), sec) > idleLimit(l.kind(), l.state())
}

// saw records a packet of a flow whose life was l. It writes only when the state or the
// second changes. It reports false when that flow has ended; otherwise all fields of the
// flow read since l was loaded belong to it.
func (f *flow) saw(l life, d Direction, flags uint8, sec uint32) bool {
	for {
		next := l.after(d, flags, sec)
		if next != l && f.life.CompareAndSwap(uint64(l), uint64(next)) {
			return true
		}
		now := life(f.life.Load())
		switch {
		case !now.same(l):
			return false
		case next == l:
			return true
		}
		l = now
	}
}

// setOrigin changes the origin of the flow whose life was l, unless it has ended. The caller holds
// Masquerade.mu, so that the entry cannot get another flow meanwhile.
func (f *flow) setOrigin(l life, origin uint32) {
	if life(f.life.Load()).same(l) {
		f.origin.Store(origin)
	}
}

// flowKey identifies a flow: the mapping, and the remote's address and port.
type flowKey struct {
	mapping uint32
	remote  words
	port    uint16
}

// who is the key without the address. The tag makes it different from what other tables
// hash.
func (k flowKey) who() uint64 { return uint64(k.mapping)<<32 | uint64(k.port)<<16 | tagFlow }

// peer is the key without address and port.
func (k flowKey) peer() uint64 { return uint64(k.mapping)<<32 | tagPeer }

const (
	tagFlow = 1 + iota
	tagPeer
	tagMapping
	tagSource
)

// key reads the key of a flow; the caller checks with life that it belongs to one flow.
func (f *flow) key() flowKey {
	who := f.who.Load()
	return flowKey{uint32(who >> 32), words{f.hi.Load(), f.lo.Load()}, uint16(who >> 16)}
}

// flowTable holds all flows. Lookups take no lock; writers hold Masquerade.mu.
type flowTable struct {
	entries []flow
	key     *hashKey

	byRemote chains // by mapping and remote endpoint
	byPeer   chains // by mapping and remote address: one flow per pair, see Siblings
	turns    atomic.Uint32
	after    []uint32
	free     freeList
}

func newFlowTable(n int, key *hashKey) flowTable {
	return flowTable{
		entries: make([]flow, n), key: key,
		byRemote: newChains(n), byPeer: newChains(n),
		after: make([]uint32, n), free: freeList{size: uint32(n)},
	}
}

func (t *flowTable) remoteBucket(k flowKey) uint32 {
	return t.byRemote.bucket(t.key.hash(k.remote, k.who()))
}

func (t *flowTable) peerBucket(k flowKey) uint32 {
	return t.byPeer.bucket(t.key.hash(k.remote, k.peer()))
}

// find returns the flow with a key, and its life at that time.
func (t *flowTable) find(k flowKey) (i uint32, l life, ok bool) {
	who := k.who()
	for w := t.byRemote.walk(t.remoteBucket(k)); ; w.step() {
		i, ok := w.entry()
		if !ok {
			return 0, 0, false
		}
		f := &t.entries[i]
		l := life(f.life.Load())
		if l.live() && f.who.Load() == who && f.lo.Load() == k.remote.lo && f.hi.Load() == k.remote.hi &&
			life(f.life.Load()).same(l) {
			return i, l, true
		}
	}
}

// findPeer returns a flow of the key's mapping with the key's remote address, regardless of
// the port, and its origin at that time.
func (t *flowTable) findPeer(k flowKey) (i, origin uint32, ok bool) {
	for {
		turn := t.turns.Load()
		if i, origin, ok = t.walkPeers(k); ok || t.turns.Load() == turn {
			return i, origin, ok
		}
	}
}

func (t *flowTable) walkPeers(k flowKey) (i, origin uint32, ok bool) {
	for w := t.byPeer.walk(t.peerBucket(k)); ; w.step() {
		i, ok := w.entry()
		if !ok {
			return 0, 0, false
		}
		f := &t.entries[i]
		l := life(f.life.Load())
		if !l.live() || uint32(f.who.Load()>>32) != k.mapping || f.lo.Load() != k.remote.lo || f.hi.Load() != k.remote.hi {
			continue
		}
		if origin := f.origin.Load(); life(f.life.Load()).same(l) {
			return i, origin, true
		}
	}
}

// add creates a flow. None with the same key may exist. ok is false when the table is full.
func (t *flowTable) add(k flowKey, kind kind, origin, sec uint32) (i uint32, l life, ok bool) {
	i, ok = t.free.take(t.link)
	if !ok {
		return 0, 0, false
	}
	f := &t.entries[i]
	f.who.Store(k.who())
	f.hi.Store(k.remote.hi)
	f.lo.Store(k.remote.lo)
	f.origin.Store(origin)
	t.join(i, k)
	l = life(f.life.Load()).begun(kind, sec)
	f.life.Store(uint64(l))
	t.byRemote.insert(t.remoteBucket(k), i)
	return i, l, true
}

// Siblings are the flows of one mapping with one remote address. They form a ring, and one
// of them represents all in byPeer: the entry that filtering by address needs exists as long
// as one of them does.

// join adds a flow to the ring of its siblings, or starts a new ring.
func (t *flowTable) join(i uint32, k flowKey) {
	f := &t.entries[i]
	if s, _, ok := t.findPeer(k); ok {
		next := t.after[s]
		t.after[s], f.before = i, s
		t.after[i], t.entries[next].before = next, i
		return
	}
	t.after[i], f.before = i, i
	t.byPeer.insert(t.peerBucket(k), i)
}

// resign replaces the flow in byPeer by a sibling, if the flow represents its siblings and
// has one, so that it can end without a gap. A reader that has passed the place of the new
// entry and misses the old one notices the change of turns and looks again.
func (t *flowTable) resign(i uint32, k flowKey) {
	s := t.after[i]
	if s == i || !t.stands(i, k) {
		return
	}
	bucket := t.peerBucket(k)
	t.byPeer.insert(bucket, s)
	t.turns.Add(1)
	t.byPeer.remove(bucket, i)
}

// stands reports whether a flow represents its siblings in byPeer.
func (t *flowTable) stands(i uint32, k flowKey) bool {
	at, _, ok := t.findPeer(k)
	return ok && at == i
}

// end ends a flow if it lives and due accepts its current life, and returns the key that it
// had.
func (t *flowTable) end(i uint32, due func(life) bool) (k flowKey, ok bool) {
	f := &t.entries[i]
	l := life(f.life.Load())
	if !l.live() || !due(l) {
		return k, false
	}
	k = f.key()
	t.resign(i, k)
	for !f.life.CompareAndSwap(uint64(l), uint64(l.ended())) {
		if l = life(f.life.Load()); !due(l) {
			return k, false // a packet arrived meanwhile
		}
	}
	t.byRemote.remove(t.remoteBucket(k), i)
	if next := t.after[i]; next != i {
		t.after[f.before], t.entries[next].before = next, f.before
	} else {
		t.byPeer.remove(t.peerBucket(k), i)
	}
	t.free.give(i, t.link)
	return k, true
}

// link returns the place where a free entry stores its successor in the free list.
func (t *flowTable) link(i uint32) *uint32 { return &t.after[i] }
