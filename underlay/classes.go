package underlay

import (
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
// While nothing overflows, there is one socket, and no program.

// Program selects the class of each datagram, from 0 to Classes-1.
type Program struct {
	classes int
	filter  func(six bool) []unix.SockFilter
}

const (
	// spreadCheck is how often a Receiver looks for overflows: after a full batch, and after every
	// 32nd, because a queue can be full of a few large messages.
	spreadCheck = 20 * time.Millisecond
	reviewFills = 32
	// spreadCalm is how long nothing must overflow before all datagrams go to the first queue again,
	// and spreadDrain how long the others are still read after that, before they are closed.
	spreadCalm  = 5 * time.Second
	spreadDrain = time.Second
)

// Classic BPF. Loads are relative to the UDP payload, or with netOffset to the IP header.
const (
	bpfLoad      = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	bpfLoad8     = unix.BPF_LD | unix.BPF_B | unix.BPF_ABS
	bpfLength    = unix.BPF_LD | unix.BPF_W | unix.BPF_LEN
	bpfSave      = unix.BPF_MISC | unix.BPF_TAX
	bpfXor       = unix.BPF_ALU | unix.BPF_XOR | unix.BPF_X
	bpfMultiply  = unix.BPF_ALU | unix.BPF_MUL | unix.BPF_K
	bpfShift     = unix.BPF_ALU | unix.BPF_RSH | unix.BPF_K
	bpfEqual     = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	bpfGreater   = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	bpfReturn    = unix.BPF_RET | unix.BPF_K
	bpfReturnA   = unix.BPF_RET | unix.BPF_A
	netOffset    = 0xfff00000 // SKF_NET_OFF
	sourceOffset = 12         // of the source in an IPv4 header
	source6      = 8          // and in an IPv6 header
)

// BySource gives senders separate queues: a sender fills its own, and those of the few that have the
// same hash.
var BySource = Program{8, func(six bool) []unix.SockFilter {
	hash := []unix.SockFilter{
		{Code: bpfMultiply, K: hashFactor},
		{Code: bpfShift, K: 32 - 3},
		{Code: bpfReturnA},
	}
	if !six {
		return append([]unix.SockFilter{{Code: bpfLoad, K: netOffset + sourceOffset}}, hash...)
	}
	words := []unix.SockFilter{{Code: bpfLoad, K: netOffset + source6}}
	for at := uint32(4); at < 16; at += 4 {
		words = append(words, unix.SockFilter{Code: bpfSave}, unix.SockFilter{Code: bpfLoad, K: netOffset + source6 + at}, unix.SockFilter{Code: bpfXor})
	}
	return append(words, hash...)
}}

// ControlSize is the length in bytes of the transport messages that have priority like handshakes.
// Those of forwarded packets can have it too.
const ControlSize = 144

// byMessage separates WireGuard's handshake messages and transport messages of ControlSize (class 2)
// from short transport messages (1) and all others (0).
var byMessage = Program{3, func(bool) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: bpfLoad8, K: 0},
		{Code: bpfEqual, K: messageTransport, Jf: 4},
		{Code: bpfLength},
		{Code: bpfEqual, K: ControlSize, Jt: 2},
		{Code: bpfGreater, K: initiationSize, Jt: 2},
		{Code: bpfReturn, K: 1},
		{Code: bpfReturn, K: 2},
		{Code: bpfReturn, K: 0},
	}
}}

// classes are the queues of a socket. Only its Receiver uses them, except for sockets.
type classes struct {
	program Program
	options Options
	sockets atomic.Pointer[[]*Socket] // of the classes from 1 on; nil while there is one queue; changed under Socket.drops

	active bool // datagrams may be in any queue
	turn   int  // the class that is read first
	fills  uint // number of calls of Fill

	checked   time.Time
	calm      time.Time // of the last overflow, or, once the queues are gathered, when that was done
	gathered  bool
	overflows uint64 // when checked
}

// Classify lets the kernel sort datagrams by p while the receive queue overflows, with sockets of these
// options. It must be called before NewReceiver. A kernel that cannot do it leaves one queue.
func (s *Socket) Classify(p Program, o Options) {
	o.ReusePort = true
	s.classes = &classes{program: p, options: o}
}

// spread starts to sort datagrams. It reports whether it could. s is in use.
func (s *Socket) spread() bool {
	k := s.classes
	if k.sockets.Load() == nil && !s.openOthers() {
		return false
	}
	if s.steer(k.program.filter(s.local.Addr().Is6())) != nil {
		return false
	}
	k.active, k.gathered = true, false
	return true
}

// openOthers opens the sockets of the other classes. All datagrams still go to s.
func (s *Socket) openOthers() bool {
	// Not earlier, so that no other socket can share the port in between.
	if s.share(1) != nil {
		return false
	}
	var sockets []*Socket
	for range s.classes.program.classes - 1 {
		other, err := Listen(s.local, s.classes.options)
		if err == nil {
			sockets = append(sockets, other)
			err = s.steer(gather) // else the kernel distributes datagrams
		}
		if err != nil {
			for _, other := range sockets {
				_ = other.Close() // fails only when called twice
			}
			_ = s.share(0)
			return false
		}
	}
	s.classes.sockets.Store(&sockets)
	if s.fd.closing.Load() { // Close may have missed them
		s.closeOthers()
	}
	return true
}

// closeOthers closes the sockets of the other classes and adds their overflows to those of s.
func (s *Socket) closeOthers() {
	s.drops.Lock()
	defer s.drops.Unlock()
	for _, other := range s.others() {
		_ = other.Close() // fails only when called twice
		s.drops.total += other.Overflows()
	}
	if s.classes != nil {
		s.classes.sockets.Store(nil)
	}
}

// share sets SO_REUSEPORT. s is in use.
func (s *Socket) share(on int) error {
	return unix.SetsockoptInt(s.fd.number, unix.SOL_SOCKET, unix.SO_REUSEPORT, on)
}

// gather puts all datagrams in the first queue.
var gather = []unix.SockFilter{{Code: bpfReturn, K: 0}}

// steer replaces the program that selects the queue. s is in use.
func (s *Socket) steer(filter []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return unix.SetsockoptSockFprog(s.fd.number, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &program)
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

// review starts to sort datagrams when a queue has overflowed, and ends it when none has for some time. s is
// in use.
func (s *Socket) review(now time.Time) {
	k := s.classes
	if now.Sub(k.checked) < spreadCheck {
		return
	}
	k.checked = now
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
		if s.steer(gather) == nil {
			k.gathered, k.calm = true, now
		}
	case k.gathered && now.Sub(k.calm) >= spreadDrain:
		k.active = false
		s.closeOthers()
		_ = s.share(0) // then the kernel selects no queue
	}
}
