package underlay

import (
	"slices"
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

// Program selects the class of each datagram, from 0 to classes-1.
type Program struct {
	classes int
	filter  func(six bool, queues []unix.SockFilter) []unix.SockFilter // queues are the instructions that select them
}

const (
	// spreadCheck is how often a Receiver looks for overflows: after a full batch, and after every
	// 32nd, because a queue can be full of a few large messages.
	spreadCheck = 20 * time.Millisecond
	reviewFills = 32
	// spreadCalm is how long nothing must overflow before all datagrams go to the first queue again,
	// and spreadDrain how long the others stay open after that, in case of another overflow. Then they
	// stop receiving, and from the next review on they are closed as soon as they are empty.
	spreadCalm  = 5 * time.Second
	spreadDrain = time.Second
)

// BySource gives senders separate queues: a sender fills its own, and those of the few that have the
// same hash.
var BySource = Program{8, func(six bool, queues []unix.SockFilter) []unix.SockFilter {
	code := []unix.SockFilter{{Code: bpfLoad, K: netOffset + sourceOffset}}
	if six {
		code = loadSource6()
	}
	code = append(code, unix.SockFilter{Code: bpfMultiply, K: hashFactor}, unix.SockFilter{Code: bpfShift, K: 32 - 3})
	return append(code, branch(choicesOf(queues))...)
}}

// ControlSize is the length in bytes of the transport messages that have priority like handshakes.
// Those of forwarded packets can have it too.
const ControlSize = 144

// byMessage separates WireGuard's handshake messages and transport messages of ControlSize (class 2)
// from short transport messages (1) and all others (0).
var byMessage = Program{3, func(_ bool, queues []unix.SockFilter) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: bpfLoad8, K: 0},
		{Code: bpfEqual, K: messageTransport, Jf: 4},
		{Code: bpfLength},
		{Code: bpfEqual, K: ControlSize, Jt: 2},
		{Code: bpfGreater, K: initiationSize, Jt: 2},
		queues[1],
		queues[2],
		queues[0],
	}
}}

// classes are the queues of a socket. Only its Receiver uses them, except for the first fields.
type classes struct {
	group   *Group
	sorted  bool                      // the program selects classes; protected by group.mu
	sockets atomic.Pointer[[]*Socket] // of the classes from 1 on; nil while there is one queue; changed under Socket.drops

	active bool // datagrams may be in any queue
	turn   int  // the class that is read first
	fills  uint // number of calls of Fill

	checked   time.Time
	calm      time.Time // of the last overflow, or, once the queues are gathered, when that was done
	gathered  bool
	stopped   bool   // the sockets of the classes receive nothing more
	overflows uint64 // when checked
}

// Classify lets the kernel sort datagrams by p while the receive queue overflows, with sockets of these
// options. It must be called before NewReceiver. A kernel that cannot do it leaves one queue. The socket
// is the first of the group that is returned.
func (s *Socket) Classify(p Program, o Options) *Group {
	o.ReusePort = true
	g := &Group{classes: p, options: o, order: []*Socket{s}}
	for bucket := range g.table {
		g.table[bucket] = s
	}
	s.classes = &classes{group: g}
	return g
}

// spread starts to sort datagrams. It reports whether it could.
func (s *Socket) spread() bool {
	k := s.classes
	k.group.mu.Lock()
	defer k.group.mu.Unlock()
	if k.sockets.Load() == nil && !s.openOthers() {
		return false
	}
	if s.sort(true) != nil {
		return false
	}
	k.active, k.gathered = true, false
	return true
}

// sort makes the program select classes, or not. group.mu is held.
func (s *Socket) sort(on bool) error {
	k := s.classes
	before := k.sorted
	k.sorted = on
	err := k.group.attach()
	if err != nil {
		k.sorted = before
	}
	return err
}

// gather puts all datagrams in the first queue.
func (s *Socket) gather() error {
	s.classes.group.mu.Lock()
	defer s.classes.group.mu.Unlock()
	return s.sort(false)
}

// openOthers opens the sockets of the other classes. group.mu is held.
func (s *Socket) openOthers() bool {
	g := s.classes.group
	if s.fd.closing.Load() {
		return false
	}
	var sockets []*Socket
	for range g.classes.classes - 1 {
		other, err := g.open()
		if err != nil {
			for _, other := range sockets {
				_ = g.drop(other) // fails only when called twice
			}
			return false
		}
		sockets = append(sockets, other)
	}
	s.classes.sockets.Store(&sockets)
	return true
}

// closeOthers closes the sockets of the other classes and adds their overflows to those of s. group.mu is
// held.
func (s *Socket) closeOthers() {
	s.drops.Lock()
	defer s.drops.Unlock()
	s.classes.sorted = false
	for _, other := range s.others() {
		_ = s.classes.group.drop(other) // fails only when called twice
		s.drops.total += other.Overflows()
	}
	s.classes.sockets.Store(nil)
}

// others returns the sockets of the other classes.
func (s *Socket) others() []*Socket {
	if s.classes == nil {
		return nil
	}
	if others := s.classes.sockets.Load(); others != nil {
		return *others
	}
	return nil
}

// review starts to sort datagrams when a queue has overflowed, and ends it when none has for some time.
func (s *Socket) review(now time.Time) {
	k := s.classes
	if now.Sub(k.checked) < spreadCheck {
		return
	}
	k.checked = now
	if k.stopped {
		s.endClasses()
		return
	}
	before := k.overflows
	k.overflows = s.Overflows()
	switch {
	case k.overflows != before:
		if (!k.active || k.gathered) && !s.spread() {
			return
		}
		k.calm = now
	case !k.active:
	case !k.gathered && now.Sub(k.calm) >= spreadCalm:
		if s.gather() == nil {
			k.gathered, k.calm = true, now
		}
	case k.gathered && now.Sub(k.calm) >= spreadDrain:
		s.stopOthers()
		k.stopped = true
	}
}

// stopOthers makes the kernel deliver nothing to the sockets of the other classes.
func (s *Socket) stopOthers() {
	g := s.classes.group
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, other := range s.others() {
		_ = g.stop(other) // then it can receive another datagram in the instant in which it is closed
	}
}

// endClasses closes the sockets of the other classes if they are empty.
func (s *Socket) endClasses() {
	k := s.classes
	if slices.ContainsFunc(s.others(), func(other *Socket) bool { return !other.Empty() }) {
		return
	}
	k.active, k.stopped = false, false
	k.group.mu.Lock()
	defer k.group.mu.Unlock()
	s.closeOthers()
}
