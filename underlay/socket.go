//go:build linux

package underlay

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Options of a socket. The zero value requests everything that the kernel offers.
type Options struct {
	DisableGRO bool // never let the kernel coalesce received datagrams
	DisableGSO bool // never let the kernel segment sent datagrams

	ReceiveBuffer int // bytes; 0 = config.SocketBuffer

	ReusePort bool // let several sockets of this user share the port

	ECN          bool // report the outer ECN field of received datagrams: Receiver.ECN
	LocalAddress bool // report the destination address of received datagrams: Receiver.Local
	DontFragment bool // drop datagrams that exceed the network device's MTU
}

// Features are the kernel features that a socket got.
type Features struct {
	GRO           bool // one message may contain several received datagrams
	GSO           bool // one message may contain several datagrams to send
	ECN           bool // the outer ECN field of received datagrams is reported
	LocalAddress  bool // the destination address of received datagrams is reported
	DontFragment  bool // sent datagrams have DF set and are never fragmented
	ReceiveBuffer int  // bytes
	SendBuffer    int  // bytes
}

// Socket is a non-blocking UDP socket. It is safe for concurrent use: one goroutine may receive while others
// send. It must be closed.
type Socket struct {
	fd       descriptor
	local    netip.AddrPort
	options  Options
	features Features
	gso      atomic.Bool // whether UDP_SEGMENT is in use; never set again once false
	hash     uint32      // identifies the socket in a Batch's table

	classes   *classes                  // nil: one queue
	watcher   atomic.Pointer[Poller]    // nil: none watches s
	fullUntil atomic.Pointer[time.Time] // until then, no Batch waits for space in the send queue

	drops struct {
		sync.Mutex // protects the fields below
		seen       uint32
		total      uint64
	}
}

// sockets numbers the sockets of the process, so that each has its own hash.
var sockets atomic.Uint32

// Listen opens a UDP socket on a local address. An unspecified IPv4 or IPv6 address means all addresses of that
// family, never of the other; port 0 lets the kernel choose. The error wraps the kernel's errno.
func Listen(addr netip.AddrPort, o Options) (*Socket, error) {
	if !addr.IsValid() {
		return nil, errors.New("listen on UDP: no address given: use 0.0.0.0 or [::] for all addresses of a family")
	}
	addr = netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port())
	family := unix.AF_INET
	if addr.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return nil, listenError(addr, "socket", err)
	}
	if call, err := bind(fd, addr, o); err != nil {
		unix.Close(fd)
		return nil, listenError(addr, call, err)
	}
	local, err := localAddr(fd)
	if err != nil {
		unix.Close(fd)
		return nil, listenError(addr, "getsockname", err)
	}
	s := &Socket{local: local, options: o, features: setOptions(fd, family == unix.AF_INET6, o)}
	s.fd.own(fd)
	s.gso.Store(s.features.GSO)
	s.fullUntil.Store(new(time.Time))
	s.hash = sockets.Add(1) * hashFactor
	return s, nil
}

// bind sets the options that must be set before binding, and binds. On failure it returns the name of the system
// call.
func bind(fd int, addr netip.AddrPort, o Options) (call string, err error) {
	if addr.Addr().Is6() {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return "setsockopt IPV6_V6ONLY", err
		}
	}
	if o.ReusePort {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return "setsockopt SO_REUSEPORT", err
		}
	}
	return "bind", unix.Bind(fd, sockaddr(addr))
}

func sockaddr(addr netip.AddrPort) unix.Sockaddr {
	if addr.Addr().Is6() {
		return &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	}
	return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: as4(addr.Addr())}
}

// as4 returns the address's four bytes, or zeros if it is not an IPv4 address.
func as4(addr netip.Addr) (b [4]byte) {
	if addr.Is4() {
		b = addr.As4()
	}
	return b
}

func localAddr(fd int) (netip.AddrPort, error) {
	name, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	switch name := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(name.Addr), uint16(name.Port)), nil
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(name.Addr), uint16(name.Port)), nil
	}
	return netip.AddrPort{}, unix.EAFNOSUPPORT
}

// listenError adds a remedy to a failure.
func listenError(addr netip.AddrPort, call string, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		remedy = ": another socket holds the port: end that process or choose another port"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		remedy = ": no interface has this address: use one that has, or the unspecified address for all"
	case errors.Is(err, unix.EACCES):
		remedy = ": an unprivileged process may not bind this port: choose one from net.ipv4.ip_unprivileged_port_start"
	case errors.Is(err, unix.EAFNOSUPPORT):
		remedy = ": this kernel does not support the address family: use an address of the other family"
	case errors.Is(err, unix.EMFILE):
		remedy = ": raise the limit of open files (ulimit -n)"
	}
	return fmt.Errorf("listen on UDP %s: %w%s", addr, os.NewSyscallError(call, err), remedy)
}

// LocalAddr returns the address the socket listens on, with the port that the kernel chose.
func (s *Socket) LocalAddr() netip.AddrPort { return s.local }

// Features returns the features of the socket. GSO turns false when a send shows that the network device does not
// support it.
func (s *Socket) Features() Features {
	f := s.features
	f.GSO = s.gso.Load()
	return f
}

// crowded reports whether unsent datagrams occupy more than half of the send buffer. Datagrams that wait for a
// neighbour's link-layer address stay for up to 3 s.
func (s *Socket) crowded() bool {
	if !s.fd.acquire() {
		return true
	}
	defer s.fd.release()
	waiting, err := unix.IoctlGetInt(s.fd.number, unix.SIOCOUTQ)
	return err != nil || waiting > s.features.SendBuffer // the kernel counts twice the size that it grants
}

// Overflows returns the number of datagrams that the kernel dropped before they were received, usually because the
// receive queue was full. Several that the kernel had coalesced (UDP GRO) count as one. It never decreases, and keeps its
// value after Close.
func (s *Socket) Overflows() uint64 {
	s.drops.Lock()
	defer s.drops.Unlock()
	if s.fd.acquire() {
		s.countDrops(s.fd.number)
		s.fd.release()
	}
	n := s.drops.total
	for _, other := range s.classes.others() {
		n += other.Overflows()
	}
	return n
}

// countDrops updates the total. The kernel's counter has 32 bits. s.drops is locked.
func (s *Socket) countDrops(fd int) {
	if now, ok := kernelDrops(fd); ok {
		s.drops.total += uint64(now - s.drops.seen)
		s.drops.seen = now
	}
}

// control calls f with the descriptor, unless s is closed.
func (s *Socket) control(f func(fd int) error) error {
	if !s.fd.acquire() {
		return net.ErrClosed
	}
	defer s.fd.release()
	return f(s.fd.number)
}

// Empty reports whether no datagram waits to be received. Empty datagrams do not count.
func (s *Socket) Empty() bool {
	waiting := 0
	err := s.control(func(fd int) (err error) {
		waiting, err = unix.IoctlGetInt(fd, unix.SIOCINQ)
		return err
	})
	return err != nil || waiting == 0 && !slices.ContainsFunc(s.classes.others(), func(other *Socket) bool { return !other.Empty() })
}

// Close closes the socket and wakes the Poller that watches it. After that Fill returns net.ErrClosed, and
// datagrams of a Batch for the socket are dropped. A second Close returns net.ErrClosed.
//
// Its port is free when Close returns: Close waits for the running system calls on s, so it must not be called
// within one.
func (s *Socket) Close() error {
	defer func() { <-s.fd.closed }()
	if s.classes != nil {
		return s.classes.close()
	}
	return s.close()
}

func (s *Socket) close() error {
	s.drops.Lock() // so that no call of Overflows uses the descriptor
	closed := s.fd.close(s.countDrops)
	s.drops.Unlock()
	if !closed {
		return net.ErrClosed
	}
	// The kernel sends no event: it removes a closed socket from epoll before a poller can see it.
	if p := s.watcher.Swap(nil); p != nil {
		p.Wake()
	}
	return nil
}
