//go:build linux

package underlay

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"
)

// An overloaded socket drops what arrives, a probe as well as the flood that fills its queue: the
// process cannot choose, because it does not even have the time to receive all. So the kernel
// chooses: more sockets on the same port (SO_REUSEPORT), and a classic BPF program that selects the
// queue of each datagram. Neither needs a privilege. A flood then fills only the queue of its class,
// and a Receiver takes turns.
//
// While nothing overflows, a Receiver has one socket.

const (
	// spreadCheck is how often a Receiver looks for overflows: after a full batch, and after every
	// 32nd, because a queue can be full of a few large messages.
	spreadCheck = 20 * time.Millisecond
	reviewFills = 32
	// standingQueue is how long a queue is never empty before that counts as overload, like an overflow. A long queue with a slow
	// reader delays probes by more than an outage may last, long before it overflows. CoDel (RFC 8289) uses the same time.
	standingQueue = 100 * time.Millisecond
	// spreadCalm is how long nothing must overflow before all datagrams go to the first queue again,
	// and spreadDrain how long the others stay open after that, in case of another overflow. Then they
	// stop receiving, and from the next review on they are closed as soon as they are empty.
	spreadCalm  = 5 * time.Second
	spreadDrain = time.Second

	// urgentTurns is how many urgent queues are read before each batch: all of them in 4 batches. urgentMost is the maximum
	// number of messages of each, so that a flood of such messages leaves most of the batch to the others.
	urgentTurns = 2
	urgentMost  = 8
	// urgentBuffer is the size of their receive buffers in bytes: a container that counts them as its memory may be filled by
	// a flood. Some hundred probes fit.
	urgentBuffer = 256 << 10
)

// phase is what the classes of a socket are used for.
type phase int

const (
	oneQueue phase = iota // all datagrams are in the first queue, but those that are paced
	sorting               // the kernel puts each datagram in the queue of its class
	draining              // no longer: the others hold what came before, and may be needed again
	stopping              // the others receive nothing more
)

// classes are the queues of a socket. Only its Receiver uses them, except for the fields that say otherwise.
type classes struct {
	first  *Socket
	group  *Group
	sorted bool                   // the program selects classes; protected by group.mu
	queues atomic.Pointer[queues] // nil while there is one; changed under Socket.drops
	queued atomic.Bool            // a Poller watches all queues, not only the first socket
	paced  paced

	phase  phase
	turn   int  // the class, not urgent, whose turn was last
	urgent int  // the urgent one whose turn was last
	fills  uint // number of calls of fill

	emptied   time.Time // the first review with a full batch since the queues were empty; zero: none
	checked   time.Time
	calm      time.Time // of the last overload, or, once the queues drain, when that began
	overflows uint64    // when checked
}

// Classify lets the kernel sort datagrams by p while the receive queue overflows, with sockets of the same
// options. It must be called before NewReceiver. A kernel that cannot do it leaves one queue. The socket
// is the first of the group that is returned.
func (s *Socket) Classify(p Program) *Group {
	g := &Group{classes: p, options: s.options, order: []*Socket{s}}
	g.options.ReusePort = true
	for bucket := range g.table {
		g.table[bucket] = s
	}
	s.classes = &classes{first: s, group: g}
	return g
}

// fill receives the next batch, and reviews the queues from time to time.
func (k *classes) fill(r *Receiver) (messages int, err error) {
	if k.phase == oneQueue {
		messages, err = k.takeFirst(r)
	} else {
		messages, err = k.takeTurns(r)
	}
	full := messages == ReceiveBatch
	if !full {
		k.emptied = time.Time{}
	}
	if k.fills++; k.phase != oneQueue || full || k.fills%reviewFills == 0 || k.paced.on != k.paced.wanted.Load() {
		k.review(time.Now(), full)
	}
	return messages, err
}

// takeFirst receives from the paced queue, if that is due, and from the first.
func (k *classes) takeFirst(r *Receiver) (messages int, err error) {
	if messages, err = k.takePaced(r); messages == ReceiveBatch {
		return messages, err
	}
	n, failed := r.take(k.first, messages, ReceiveBatch)
	return messages + n, cmp.Or(failed, err)
}

// takeTurns receives from the urgent queues, some per batch, and then from the others, each time from another one first, until the
// batch is full. Only queues that hold something are read.
func (k *classes) takeTurns(r *Receiver) (messages int, err error) {
	all, urgent, ordinary := k.queues.Load(), k.group.classes.urgent, k.group.classes.ordinary()
	if all == nil { // closed meanwhile
		return r.take(k.first, 0, ReceiveBatch)
	}
	holding := all.holding()
	take := func(class, to int) (any bool) {
		if holding>>class&1 == 0 || messages == ReceiveBatch {
			return false
		}
		n, failed := r.take(all.sockets[class], messages, to)
		messages, err = messages+n, cmp.Or(failed, err)
		return n > 0
	}
	turns := urgentTurns
	for i := 0; i < urgent && turns > 0; i++ {
		k.urgent = (k.urgent + 1) % urgent
		if take(ordinary+k.urgent, messages+urgentMost) {
			turns--
		}
	}
	for i := 0; i < ordinary && messages < ReceiveBatch; i++ {
		k.turn = (k.turn + 1) % ordinary
		take(k.turn, ReceiveBatch)
	}
	for i := range urgent { // what is left: no other batch follows one that was not full
		take(ordinary+i, ReceiveBatch)
	}
	return messages, err
}

// review starts to sort datagrams when a queue has overflowed or stands, and ends it when none has for some time; then it begins to
// pace a queue, if it is to. full says that the last batch was full.
func (k *classes) review(now time.Time, full bool) {
	if now.Sub(k.checked) < spreadCheck {
		return
	}
	k.checked = now
	if k.phase == stopping {
		k.closeEmpty()
		return
	}
	if k.paced.on != k.paced.wanted.Load() && !k.setPaced(now) {
		return
	}
	before := k.overflows
	k.overflows = k.first.Overflows()
	if full && k.emptied.IsZero() {
		k.emptied = now
	}
	switch calm := now.Sub(k.calm); {
	case k.overflows != before, full && now.Sub(k.emptied) >= standingQueue:
		if k.phase != sorting && !k.spread() {
			return
		}
		k.calm = now
	case k.phase == sorting && calm >= spreadCalm:
		if k.gather() {
			k.calm = now
		}
	case k.phase == draining && calm >= spreadDrain && k.paced.on:
		k.startPace()
	case k.phase == draining && calm >= spreadDrain:
		k.stopOthers()
	}
}

// spread starts to sort datagrams. It reports whether it could.
func (k *classes) spread() bool {
	k.group.mu.Lock()
	defer k.group.mu.Unlock()
	if k.queues.Load() == nil && !k.openOthers() || !k.sort(true) {
		return false
	}
	k.phase = sorting
	k.watchQueues(true)
	return true
}

// gather puts all datagrams in the first queue. It reports whether it could.
func (k *classes) gather() bool {
	k.group.mu.Lock()
	defer k.group.mu.Unlock()
	if !k.sort(false) {
		return false
	}
	k.phase = draining
	return true
}

// sort makes the program select classes, or not, and reports whether it could. group.mu is held.
func (k *classes) sort(on bool) bool {
	before := k.sorted
	k.sorted = on
	if k.group.attach() != nil {
		k.sorted = before
		return false
	}
	return true
}

// openOthers opens the sockets of the other classes. group.mu is held.
func (k *classes) openOthers() bool {
	g := k.group
	if k.first.fd.closing.Load() {
		return false
	}
	var sockets []*Socket
	var err error
	for class := 1; class < g.classes.classes && err == nil; class++ {
		options := g.options
		if class >= g.classes.ordinary() {
			options.ReceiveBuffer = urgentBuffer
		}
		var other *Socket
		if other, err = g.open(options); err == nil {
			sockets = append(sockets, other)
		}
	}
	var all *queues
	if err == nil {
		all, err = newQueues(k.first, sockets)
	}
	if err != nil {
		for _, other := range sockets {
			_ = g.drop(other) // fails only when called twice
		}
		return false
	}
	k.queues.Store(all)
	return true
}

// others returns the sockets of the other classes. k may be nil.
func (k *classes) others() []*Socket {
	if k != nil {
		if all := k.queues.Load(); all != nil {
			return all.sockets[1:]
		}
	}
	return nil
}

// watchQueues makes the pollers that watch the first socket watch all its queues, or only that. The queues are open.
func (k *classes) watchQueues(all bool) {
	before := k.first.watched()
	k.queued.Store(all)
	for _, p := range k.first.pollers() {
		p.exchange(k.first, before)
	}
}

// watched returns what a Poller watches to learn of datagrams for s.
func (s *Socket) watched() *descriptor {
	if s.classes != nil && s.classes.queued.Load() {
		if all := s.classes.queues.Load(); all != nil {
			return &all.watch
		}
	}
	return &s.fd
}

// stopOthers makes the kernel deliver nothing to the sockets of the other classes.
func (k *classes) stopOthers() {
	k.group.mu.Lock()
	defer k.group.mu.Unlock()
	for _, other := range k.others() {
		_ = k.group.stop(other) // then it can receive another datagram in the instant in which it is closed
	}
	k.phase = stopping
}

// closeEmpty closes the sockets of the other classes if they are empty.
func (k *classes) closeEmpty() {
	if slices.ContainsFunc(k.others(), func(other *Socket) bool { return !other.Empty() }) {
		return
	}
	k.phase = oneQueue
	k.group.mu.Lock()
	defer k.group.mu.Unlock()
	k.closeOthers()
}

// closeOthers closes the sockets of the other classes and adds their overflows to those of the first. group.mu is
// held.
func (k *classes) closeOthers() {
	all := k.queues.Load()
	if all == nil {
		return
	}
	k.watchQueues(false)
	k.first.drops.Lock()
	defer k.first.drops.Unlock()
	k.sorted, k.paced.on = false, false
	for _, other := range all.sockets[1:] {
		_ = k.group.drop(other) // fails only when called twice
		k.first.drops.total += other.Overflows()
	}
	k.queues.Store(nil)
	all.close()
}
