//go:build linux

package underlay

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
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
	// are closed as soon as they are empty.
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
)

// classes are the queues of a socket. Only its Receiver uses them, except for the fields that say otherwise.
type classes struct {
	first   *Socket
	program Program

	mu     sync.Mutex             // held while queues open or close, or the kernel gets another program
	queues atomic.Pointer[queues] // nil while there is one; changed under mu and Socket.drops
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
// options. It must be called before NewReceiver. A kernel that cannot do it leaves one queue.
func (s *Socket) Classify(p Program) { s.classes = &classes{first: s, program: p} }

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
	all, urgent, ordinary := k.queues.Load(), k.program.urgent, k.program.ordinary()
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
		if k.direct(draining, k.paced.on) {
			k.calm = now
		}
	case k.phase == draining && calm >= spreadDrain && k.drained():
		k.useOne()
	}
}

// spread starts to sort datagrams. It reports whether it could.
func (k *classes) spread() bool {
	if !k.direct(sorting, k.paced.on) {
		return false
	}
	k.watchQueues(true)
	return true
}

// drained reports whether the queues are empty that receive nothing any more.
func (k *classes) drained() bool {
	return !slices.ContainsFunc(k.others(), func(other *Socket) bool {
		return !other.Empty() && !(k.paced.on && other == k.pacedQueue())
	})
}

// useOne ends the use of the other queues, but of the paced one if there is one.
func (k *classes) useOne() {
	k.phase = oneQueue
	k.watchQueues(false)
	if k.paced.on {
		go k.tick()
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closeOthers()
}

// direct opens the queues, if they are not open, and gives the kernel the program of a phase, and of pacing or not. It reports
// whether it could; else everything is as before.
func (k *classes) direct(next phase, paced bool) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	opens := k.queues.Load() == nil
	if opens && !k.openOthers() {
		return false
	}
	code := []unix.SockFilter{queue(0)}
	six := k.first.local.Addr().Is6()
	switch {
	case next == sorting:
		code = k.program.filter(six)
	case paced:
		code = append(k.program.skipIfPaced(1), queue(0), queue(k.program.ordinary()))
	}
	filter := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	err := k.first.control(func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &filter)
	})
	if err != nil {
		if opens {
			k.closeOthers()
		}
		return false
	}
	k.phase, k.paced.on = next, paced
	return true
}

// openOthers opens the sockets of the other classes. The kernel numbers sockets in the order in which they were bound, so that the
// number of a socket is its class. Until it has a program, it distributes datagrams by a hash. k.mu is held.
func (k *classes) openOthers() bool {
	if k.first.fd.closing.Load() || k.first.share(1) != nil { // not earlier, so that no other process of this user can share the port
		return false
	}
	options := k.first.options
	options.ReusePort = true
	var sockets []*Socket
	var all *queues
	var err error
	for class := 1; class < k.program.classes && err == nil; class++ {
		if class >= k.program.ordinary() {
			options.ReceiveBuffer = urgentBuffer
		}
		var other *Socket
		if other, err = Listen(k.first.local, options); err == nil {
			sockets = append(sockets, other)
		}
	}
	if err == nil {
		all, err = newQueues(k.first, sockets)
	}
	if err != nil {
		k.closeSockets(sockets)
		return false
	}
	k.queues.Store(all)
	return true
}

// closeSockets closes sockets of other classes, after which there is one. The kernel gives the number of a closed socket to the
// last one: so that closes first. A datagram that arrives in that instant can be lost.
func (k *classes) closeSockets(others []*Socket) {
	for _, other := range slices.Backward(others) {
		_ = other.close() // fails only when called twice
		<-other.fd.closed
	}
	_ = k.first.share(0) // the kernel selects no longer, and no other socket can share the port
}

// share sets SO_REUSEPORT.
func (s *Socket) share(on int) error {
	return s.control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, on) })
}

// opened returns the queues, nil if there is one. k may be nil.
func (k *classes) opened() *queues {
	if k == nil {
		return nil
	}
	return k.queues.Load()
}

// others returns the sockets of the other classes. k may be nil.
func (k *classes) others() []*Socket {
	if all := k.opened(); all != nil {
		return all.sockets[1:]
	}
	return nil
}

// watchQueues makes the poller that watches the first socket watch all its queues, or only that. The queues are open.
func (k *classes) watchQueues(all bool) {
	before := k.first.watched()
	k.queued.Store(all)
	if p := k.first.watcher.Load(); p != nil {
		p.exchange(k.first, before)
	}
}

// watched returns what a Poller watches to learn of datagrams for s.
func (s *Socket) watched() *descriptor {
	if all := s.classes.opened(); all != nil && s.classes.queued.Load() {
		return &all.watch
	}
	return &s.fd
}

// closeOthers closes the sockets of the other classes and adds their overflows to those of the first. k.mu is held.
func (k *classes) closeOthers() {
	all := k.queues.Load()
	if all == nil {
		return
	}
	k.watchQueues(false)
	k.first.drops.Lock()
	defer k.first.drops.Unlock()
	k.closeSockets(all.sockets[1:])
	for _, other := range all.sockets[1:] {
		k.first.drops.total += other.Overflows()
	}
	k.queues.Store(nil)
	all.close()
}

// close closes the socket and those of its classes.
func (k *classes) close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closeOthers()
	return k.first.close()
}
