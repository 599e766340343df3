//go:build linux

package underlay

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// Buckets is the number of parts into which a Group divides the senders.
const Buckets = 256

// Group is the sockets on one UDP address. The kernel selects one for each datagram, in two steps: the
// hash of the sender's address and port is a bucket, and Direct says which socket receives it; if that
// socket has classes (Socket.Classify) and has overflowed, the datagram's class selects one of its queues.
//
// With one socket there is no program. The kernel numbers the sockets in the order in which they were
// bound; when one leaves, the last takes its number. A program selects a socket by number, so each
// change replaces it. Between the two system calls of a change, datagrams may reach another socket of
// the group: none is lost.
//
// A socket that is closed leaves the group first, and the kernel's table of sockets a moment later. In
// between the kernel delivers to it any datagram for the group. So StopReceiving comes before Close.
//
// Safe for concurrent use.
type Group struct {
	classes Program // of every socket
	options Options

	mu    sync.Mutex       // protects the fields below, and the sockets of all classes
	order []*Socket        // all open sockets, by the kernel's number
	table [Buckets]*Socket // by bucket; none of them is the socket of a class
}

// Open opens another socket on the address of the group. Until Direct it receives nothing but what
// arrives while it is opened; it must be read all the same. The caller owns it.
func (g *Group) Open() (*Socket, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s, err := g.open(g.options)
	if err != nil {
		return nil, err
	}
	s.classes = &classes{first: s, group: g}
	return s, nil
}

// Direct replaces the table: the socket that receives the datagrams of each bucket.
func (g *Group) Direct(table *[Buckets]*Socket) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.table
	g.table = *table
	err := g.attach()
	if err != nil {
		g.table = before
	}
	return err
}

// StopReceiving makes the kernel deliver nothing more to sockets whose Groups exclude them, and to those of
// their classes. What they have queued can still be received. When it returns, no delivery is in progress,
// unless the kernel has no membarrier(2). It takes some milliseconds.
func StopReceiving(sockets ...*Socket) error {
	var err error
	for _, s := range sockets {
		err = errors.Join(err, s.classes.group.stopReceiving(s))
	}
	// The kernel selects a socket and queues the datagram in one RCU read-side critical section. This
	// command waits until all that have begun have ended.
	const global = 1
	_, _, _ = unix.Syscall(unix.SYS_MEMBARRIER, global, 0, 0)
	return err
}

// stopReceiving is StopReceiving without the wait.
func (g *Group) stopReceiving(s *Socket) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.stop(s)
	for _, other := range s.classes.others() {
		err = errors.Join(err, g.stop(other))
	}
	return err
}

// stop connects a socket to its own address, from which no socket sends to it. The kernel then selects it for
// no other sender. g.mu is held.
func (g *Group) stop(s *Socket) error {
	address := s.local.Addr()
	everywhere := address.IsUnspecified()
	switch {
	case everywhere && address.Is6():
		address = netip.IPv6Loopback()
	case everywhere:
		address = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	err := s.control(func(fd int) error {
		return os.NewSyscallError("connect", unix.Connect(fd, sockaddr(netip.AddrPortFrom(address, s.local.Port()))))
	})
	if err != nil || !everywhere {
		return err
	}
	return g.leave(s) // the kernel has taken it out of the group, because connecting has given it an address
}

// open opens a socket. g.mu is held.
func (g *Group) open(options Options) (*Socket, error) {
	if len(g.order) == 0 {
		return nil, net.ErrClosed
	}
	first := g.order[0]
	if len(g.order) == 1 { // not earlier, so that no other process of this user can share the port
		if err := first.share(1); err != nil {
			return nil, err
		}
	}
	s, err := Listen(first.local, options)
	if err == nil {
		g.order = append(g.order, s)
		if err = g.attach(); err != nil { // then the kernel distributes datagrams by a hash of its own
			return nil, errors.Join(err, g.drop(s))
		}
		return s, nil
	}
	if len(g.order) == 1 {
		_ = first.share(0)
	}
	return nil, err
}

// close closes a socket and those of its classes.
func (g *Group) close(s *Socket) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	s.classes.closeOthers()
	return g.drop(s)
}

// drop closes one socket and removes it from the program. g.mu is held.
func (g *Group) drop(s *Socket) error {
	if err := s.close(); err != nil {
		return err
	}
	if s.classes == nil { // then no user of the descriptor waits for g.mu, and the kernel renumbers after the last one
		<-s.fd.closed
	}
	return g.leave(s)
}

// leave removes a socket from the program, unless it was removed before. g.mu is held.
func (g *Group) leave(s *Socket) error {
	at, last := slices.Index(g.order, s), len(g.order)-1
	if at < 0 {
		return nil
	}
	g.order[at] = g.order[last]
	g.order[last] = nil
	g.order = g.order[:last]
	switch last {
	case 0:
		return nil
	case 1:
		return g.order[0].share(0) // the kernel selects no longer, and no other socket can share the port
	}
	return g.attach()
}

// share sets SO_REUSEPORT.
func (s *Socket) share(on int) error {
	return s.control(func(fd int) error { return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, on) })
}

// attach gives the kernel the program for the present sockets and table. g.mu is held.
func (g *Group) attach() error {
	if len(g.order) < 2 {
		return nil
	}
	code := g.compile()
	program := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	return g.order[0].control(func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_REUSEPORT_CBPF, &program)
	})
}

// compile returns the program. g.mu is held.
func (g *Group) compile() []unix.SockFilter {
	six := g.order[0].local.Addr().Is6()
	var targets []*Socket // the different sockets in the table
	leaves := make([]unix.SockFilter, Buckets)
	for bucket, s := range g.table {
		at := slices.Index(targets, s)
		if at < 0 {
			at = len(targets)
			targets = append(targets, s)
		}
		leaves[bucket] = unix.SockFilter{Code: bpfTarget, K: uint32(at)}
	}
	var code []unix.SockFilter
	if len(targets) > 1 {
		code = bucketOf(six)
	}
	code = append(code, branch(choicesOf(leaves))...)
	starts := make([]int, len(targets))
	branches := len(code)
	for i, s := range targets {
		starts[i] = len(code)
		code = append(code, g.queue(s, six)...)
	}
	for at := range code[:branches] {
		if code[at].Code == bpfTarget {
			code[at] = unix.SockFilter{Code: bpfJump, K: uint32(starts[code[at].K] - at - 1)}
		}
	}
	return code
}

// queue returns the code that selects the queue of a datagram for s. g.mu is held.
func (g *Group) queue(s *Socket, six bool) []unix.SockFilter {
	k := s.classes
	switch {
	case k != nil && k.sorted:
		queues := []unix.SockFilter{g.number(s)}
		for _, other := range k.others() {
			queues = append(queues, g.number(other))
		}
		return g.classes.filter(six, queues)
	case k != nil && k.paced.on:
		return append(g.classes.skipIfPaced(1), g.number(s), g.number(k.pacedQueue()))
	}
	return []unix.SockFilter{g.number(s)}
}

// number returns the instruction that selects a socket. One that is closed is replaced by the first.
func (g *Group) number(s *Socket) unix.SockFilter {
	return unix.SockFilter{Code: bpfReturn, K: uint32(max(slices.Index(g.order, s), 0))}
}
