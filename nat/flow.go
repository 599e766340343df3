package nat

import (
	"sync/atomic"

	"strait.dev/strait/packet"
)

// flow is one flow: a mapping and a remote endpoint. 40 bytes, of which a packet
// reads one or two cache lines.
//
// Fields that packets read are atomic, and life tells whether what was read
// belongs together: it has one generation from before the other fields are
// written until after the flow has ended.
type flow struct {
	life   atomic.Uint64
	hi, lo atomic.Uint64 // address of the remote
	who    atomic.Uint64 // see flowKey
	origin atomic.Uint32

	before uint32 // see siblings; under Masquerade.mu
}

// life is what changes in a flow while it lives, in one word, so that it changes
// at once and never in a flow that has ended meanwhile.
//
//	63        43 42   41 40  39      32 31             0
//	generation | live | kind | state    | last seen, s |
type life uint64

const (
	lifeState = 32
	lifeKind  = 40
	lifeLive  = 1 << 42
	lifeGen   = 43

	// answered marks, beside the state of a TCP connection, a flow of any kind
	// that got a packet from its remote.
	answered = 1 << 7
)

func (l life) last() uint32    { return uint32(l) }
func (l life) state() TCPState { return TCPState(l>>lifeState) &^ answered }
func (l life) answered() bool  { return l>>lifeState&answered != 0 }
func (l life) kind() kind      { return kind(l >> lifeKind & 3) }
func (l life) live() bool      { return l&lifeLive != 0 }

// same reports whether both are of one flow, not of one that came after it.
func (l life) same(other life) bool { return l>>lifeGen == other>>lifeGen }

// ended is the life of an entry without a flow, of the next generation.
func (l life) ended() life { return (l>>lifeGen + 1) << lifeGen }

// begun is the first of a flow in an entry without one.
func (l life) begun(k kind, sec uint32) life {
	return l | lifeLive | life(k)<<lifeKind | life(sec)
}

// after is the life after a packet. Packets from inside keep a flow alive, those
// from the remote only a TCP connection (RFC 4787 REQ-6, RFC 7857 section 7). A
// RST starts the time of a connection that was reset, another does not prolong it
// (RFC 7857 sections 2.2, 7.1).
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

// timedOut reports whether a flow has been idle for longer than it may be.
func (l life) timedOut(sec uint32) bool {
	return idle(l.last(), sec) > idleLimit(l.kind(), l.state())
}

// saw notes a packet of the flow that lived as l. It writes only when something
// changes: the state, or the second. It reports false when that flow has ended;
// otherwise, what was read of it since belongs to it.
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

// flowKey names a flow: the mapping, and the remote's address and port.
type flowKey struct {
	mapping uint32
	remote  words
	port    uint16
}

// who is the key but for the address. The tag keeps it from looking like what
// other tables hash.
func (k flowKey) who() uint64 { return uint64(k.mapping)<<32 | uint64(k.port)<<16 | tagFlow }

// peer is the key but for address and port.
func (k flowKey) peer() uint64 { return uint64(k.mapping)<<32 | tagPeer }

const (
	tagFlow = 1 + iota
	tagPeer
	tagMapping
	tagSource
)

// key reads the key of a flow; it is that of one flow only if life says so.
func (f *flow) key() flowKey {
	who := f.who.Load()
	return flowKey{uint32(who >> 32), words{f.hi.Load(), f.lo.Load()}, uint16(who >> 16)}
}

// flowTable are all flows. Finding takes no lock; whatever changes the table
// holds Masquerade.mu.
type flowTable struct {
	entries []flow
	key     *hashKey

	byRemote chains // by mapping and remote endpoint
	byPeer   chains // by mapping and remote address: one of the flows of both, see siblings
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

// find is the flow with a key, and its life when it was found.
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

// findPeer is a flow of the key's mapping with the key's remote address,
// whatever its port, and its origin then.
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

// add makes a flow. Its key must have none. ok is false when the table is full.
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

// Siblings are the flows of one mapping with one remote address. They form a
// ring, and one of them stands for all in byPeer: what filtering by address asks
// for is there as long as one of them is.

// join makes a flow the sibling of others, or an only child.
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

// resign lets a sibling stand for all in place of the flow, if that does and has
// one, so that it can end without a gap. A reader that was past the one when it
// came, and meets the other no more, learns from turns to look again.
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

// stands reports whether a flow stands for its siblings.
func (t *flowTable) stands(i uint32, k flowKey) bool {
	at, _, ok := t.findPeer(k)
	return ok && at == i
}

// end ends a flow if it lives and due agrees with how it lives at this very
// moment, and gives the key that it had.
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
			return k, false // a packet came between
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

// link is where an unused entry keeps its successor in the free list.
func (t *flowTable) link(i uint32) *uint32 { return &t.after[i] }
