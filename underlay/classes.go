//go:build linux

package underlay

import (
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/geneve"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
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
	urgent  int                                                        // how many of them, the last ones, are read before the others
	filter  func(six bool, queues []unix.SockFilter) []unix.SockFilter // queues are the instructions that select them
	// skipIfPaced returns code that skips so many instructions if Socket.Pace is for the datagram. Nil: for none.
	skipIfPaced func(instructions uint8) []unix.SockFilter
}

// ordinary returns how many classes are not urgent: the first ones.
func (p Program) ordinary() int { return p.classes - p.urgent }

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
)

const (
	// sourceClasses is how many queues the senders share, and how many their probes do.
	sourceClasses = 8
	// urgentTurns is how many urgent queues are read before each batch: all of them in 4 batches. urgentMost is the maximum
	// number of messages of each, so that a flood of such messages leaves most of the batch to the others.
	urgentTurns = 2
	urgentMost  = 8
	// urgentBuffer is the size of their receive buffers in bytes: a container that counts them as its memory may be filled by
	// a flood. Some hundred probes fit.
	urgentBuffer = 256 << 10
)

// BySource gives senders separate queues: a sender fills its own, and those of the few that have the
// same hash. The probes of nodes (package nodeprobe) have other queues, by the same hash: a node that sends more than is
// received does not take the gateway for dead.
var BySource = Program{2 * sourceClasses, sourceClasses, selectBySource, skipIfProbe}

func selectBySource(six bool, queues []unix.SockFilter) []unix.SockFilter {
	hash := []unix.SockFilter{{Code: bpfLoad, K: netOffset + sourceOffset}}
	if six {
		hash = loadSource6()
	}
	hash = append(hash, unix.SockFilter{Code: bpfMultiply, K: hashFactor}, unix.SockFilter{Code: bpfShift, K: 32 - 3})
	data := append(slices.Clone(hash), branch(choicesOf(queues[:sourceClasses]))...)
	probes := append(hash, branch(choicesOf(queues[sourceClasses:]))...)
	return slices.Concat(skipIfProbe(uint8(len(data))), data, probes)
}

// skipIfProbe returns code that skips so many instructions after it if a datagram is a probe of a node. The headers of Geneve
// without options and of VXLAN have the same length.
func skipIfProbe(instructions uint8) []unix.SockFilter {
	const (
		etherType = geneve.HeaderLen + 12
		ip        = geneve.HeaderLen + packet.EthernetHeaderLen
		protocol  = ip + 9
		port      = ip + packet.IPv4HeaderLen + 2
		next6     = ip + 6
		port6     = ip + packet.IPv6HeaderLen + 2
		least     = ip + packet.IPv4HeaderLen + packet.UDPHeaderLen + nodeprobe.Len
		least6    = ip + packet.IPv6HeaderLen + packet.UDPHeaderLen + nodeprobe.Len
	)
	return []unix.SockFilter{
		{Code: bpfLength},
		{Code: bpfAtLeast, K: least, Jf: 13}, // a load beyond the end would select the first socket
		{Code: bpfLoad16, K: etherType},
		{Code: bpfEqual, K: packet.EtherTypeIPv4, Jf: 4},
		{Code: bpfLoad8, K: protocol},
		{Code: bpfEqual, K: packet.ProtoUDP, Jf: 9},
		{Code: bpfLoad16, K: port},
		{Code: bpfEqual, K: nodeprobe.Port, Jt: 7 + instructions, Jf: 7},
		{Code: bpfEqual, K: packet.EtherTypeIPv6, Jf: 6},
		{Code: bpfLength},
		{Code: bpfAtLeast, K: least6, Jf: 4},
		{Code: bpfLoad8, K: next6},
		{Code: bpfEqual, K: packet.ProtoUDP, Jf: 2},
		{Code: bpfLoad16, K: port6},
		{Code: bpfEqual, K: nodeprobe.Port, Jt: instructions},
	}
}

// ControlSize is the length in bytes of the transport messages that have priority like handshakes.
// Those of forwarded packets can have it too.
const ControlSize = 144

// byMessage separates WireGuard's handshake messages and transport messages of ControlSize (class 2)
// from short transport messages (1) and all others (0).
var byMessage = Program{3, 0, func(_ bool, queues []unix.SockFilter) []unix.SockFilter {
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
}, nil}

// classes are the queues of a socket. Only its Receiver uses them, except for the first fields.
type classes struct {
	group  *Group
	sorted bool                   // the program selects classes; protected by group.mu
	paced  bool                   // one queue is; protected by group.mu
	queues atomic.Pointer[queues] // nil while there is one; changed under Socket.drops

	pace   atomic.Bool // what paced is to be
	due    atomic.Bool // the paced queue is to be read
	queued atomic.Bool // a Poller watches all queues, not only the first socket

	active bool // datagrams may be in any queue
	likely bool // the next one is likely to be of class last
	last   int  // the class of the last message received
	turn   int  // the class, not urgent, whose turn was last
	urgent int  // the urgent one whose turn was last
	fills  uint // number of calls of Fill

	emptied   time.Time // the first review with a full batch since the queues were empty; zero: none
	checked   time.Time
	calm      time.Time // of the last overload, or, once the queues are gathered, when that was done
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
	if k.queues.Load() == nil && !s.openOthers() {
		return false
	}
	if s.sort(true) != nil {
		return false
	}
	k.active, k.gathered = true, false
	s.watchQueues(true)
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
		all, err = newQueues(s, sockets)
	}
	if err != nil {
		for _, other := range sockets {
			_ = g.drop(other) // fails only when called twice
		}
		return false
	}
	s.classes.queues.Store(all)
	return true
}

// watchQueues makes the pollers that watch s watch all its queues, or only s. The queues are open.
func (s *Socket) watchQueues(all bool) {
	before := s.watched()
	s.classes.queued.Store(all)
	for _, p := range s.pollers() {
		p.exchange(s, before)
	}
}

// closeOthers closes the sockets of the other classes and adds their overflows to those of s. group.mu is
// held.
func (s *Socket) closeOthers() {
	all := s.classes.queues.Load()
	if all == nil {
		return
	}
	s.watchQueues(false)
	s.drops.Lock()
	defer s.drops.Unlock()
	s.classes.sorted, s.classes.paced = false, false
	for _, other := range s.others() {
		_ = s.classes.group.drop(other) // fails only when called twice
		s.drops.total += other.Overflows()
	}
	s.classes.queues.Store(nil)
	all.close()
}

// others returns the sockets of the other classes.
func (s *Socket) others() []*Socket {
	if s.classes == nil {
		return nil
	}
	if all := s.classes.queues.Load(); all != nil {
		return all.sockets[1:]
	}
	return nil
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

// review starts to sort datagrams when a queue has overflowed or stands, and ends it when none has for some time; then it begins to
// pace a queue, if it is to. full says that the last batch was full.
func (s *Socket) review(now time.Time, full bool) {
	k := s.classes
	if now.Sub(k.checked) < spreadCheck {
		return
	}
	k.checked = now
	if k.stopped {
		s.endClasses()
		return
	}
	if k.paced != k.pace.Load() && !s.setPaced(now) {
		return
	}
	before := k.overflows
	k.overflows = s.Overflows()
	if full && k.emptied.IsZero() {
		k.emptied = now
	}
	switch {
	case k.overflows != before, full && now.Sub(k.emptied) >= standingQueue:
		if (!k.active || k.gathered) && !s.spread() {
			return
		}
		k.calm = now
	case !k.active:
	case !k.gathered && now.Sub(k.calm) >= spreadCalm:
		if s.gather() == nil {
			k.gathered, k.calm = true, now
		}
	case k.gathered && now.Sub(k.calm) >= spreadDrain && k.paced:
		s.startPace()
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
