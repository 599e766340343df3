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

	"golang.org/x/sys/unix"
)

// DefaultBuffer is the size in bytes asked of the kernel for a socket's receive and
// send queues. For an ordinary user the kernel grants at most net.core.rmem_max and
// net.core.wmem_max.
const DefaultBuffer = 4 << 20

// Options of a socket. The zero value asks for everything the kernel offers.
type Options struct {
	DisableGRO bool // never let the kernel coalesce what arrives
	DisableGSO bool // never let the kernel segment what is sent

	ReceiveBuffer int // bytes; 0 = DefaultBuffer
	SendBuffer    int // bytes; 0 = DefaultBuffer

	ReusePort bool // let several sockets of this user share the port

	ECN          bool // tell the outer ECN field of what arrives: Receiver.ECN
	LocalAddress bool // tell which address what arrives was sent to: Receiver.Local
	DontFragment bool // rather drop what the network device's MTU cannot carry
}

// Features says what a socket got from the kernel.
type Features struct {
	GRO           bool // one message may carry many received datagrams
	GSO           bool // one message may carry many datagrams to send
	ECN           bool // the outer ECN field of what arrives is told
	LocalAddress  bool // the address that what arrives was sent to is told
	DontFragment  bool // what is sent bears DF and leaves whole or not at all
	ReceiveBuffer int  // bytes
	SendBuffer    int  // bytes
}

// Socket is one non-blocking UDP socket. It is safe for concurrent use: one
// goroutine may receive from it while others send. It must be closed.
type Socket struct {
	fd       descriptor
	local    netip.AddrPort
	features Features
	gso      atomic.Bool // whether UDP_SEGMENT is in use; once false, false for good
	hash     uint32      // tells sockets apart in a Batch's table

	drops struct {
		sync.Mutex // protects what follows
		seen       uint32
		total      uint64
	}
	watchers struct {
		sync.Mutex // protects pollers
		pollers    []*Poller
	}
}

// sockets numbers the sockets of the process, so that each gets a hash of its own.
var sockets atomic.Uint32

// Listen opens a UDP socket on an address of this machine. An unspecified IPv4 or
// IPv6 address stands for all addresses of that family, never of the other; port 0
// lets the kernel choose. The error wraps the kernel's errno.
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
	s := &Socket{local: local, features: setOptions(fd, family == unix.AF_INET6, o)}
	s.features.LocalAddress = o.LocalAddress && enableLocalAddress(fd, family == unix.AF_INET6)
	s.fd.own(fd)
	s.gso.Store(s.features.GSO)
	s.hash = sockets.Add(1) * hashFactor
	return s, nil
}

// bind sets what must be set before the port is taken, and takes it. On failure it
// names the system call.
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
	var name unix.Sockaddr = &unix.SockaddrInet4{Port: int(addr.Port()), Addr: as4(addr.Addr())}
	if addr.Addr().Is6() {
		name = &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	}
	return "bind", unix.Bind(fd, name)
}

// enableLocalAddress makes the kernel tell the local address of every message. If it does
// not, it also chooses the address that answers come from; that is no error.
func enableLocalAddress(fd int, six bool) bool {
	if six {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) == nil
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1) == nil
}

// as4 is the address's four bytes, or zeros if it is not an IPv4 address.
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

// listenError adds to a failure what can be done about it.
func listenError(addr netip.AddrPort, call string, err error) error {
	remedy := ""
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		remedy = ": another socket holds the port: end that process or choose another port"
	case errors.Is(err, unix.EADDRNOTAVAIL):
		remedy = ": no interface has this address: use one that has, or the unspecified address for all"
	case errors.Is(err, unix.EACCES):
		remedy = ": an ordinary user may not take this port: choose one above net.ipv4.ip_unprivileged_port_start"
	case errors.Is(err, unix.EAFNOSUPPORT):
		remedy = ": this kernel runs without the address family: use an address of the other one"
	case errors.Is(err, unix.EMFILE):
		remedy = ": raise the limit of open files (ulimit -n)"
	}
	return fmt.Errorf("listen on UDP %s: %w%s", addr, os.NewSyscallError(call, err), remedy)
}

// LocalAddr is the address the socket listens on, with the port the kernel chose.
func (s *Socket) LocalAddr() netip.AddrPort { return s.local }

// Features says what the socket got. GSO turns false when sending finds out that the
// network device refuses it.
func (s *Socket) Features() Features {
	f := s.features
	f.GSO = s.gso.Load()
	return f
}

// crowded reports whether what was sent and has not left yet takes more than half of the
// send buffer. What waits for a neighbour's link-layer address stays for up to 3 s.
func (s *Socket) crowded() bool {
	if !s.fd.acquire() {
		return true
	}
	defer s.fd.release()
	waiting, err := unix.IoctlGetInt(s.fd.number, unix.SIOCOUTQ)
	return err != nil || waiting > s.features.SendBuffer // the kernel counts in twice the size it grants
}

// Overflows counts the datagrams that arrived and were dropped by the kernel before
// they could be received, as a rule because the receive queue was full. It never
// decreases, and keeps its value after Close.
func (s *Socket) Overflows() uint64 {
	if s.fd.acquire() {
		defer s.fd.release()
		return s.countDrops(s.fd.number)
	}
	s.drops.Lock()
	defer s.drops.Unlock()
	return s.drops.total
}

// countDrops brings the total up to date. The kernel counts in 32 bits.
func (s *Socket) countDrops(fd int) uint64 {
	s.drops.Lock()
	defer s.drops.Unlock()
	if now, ok := kernelDrops(fd); ok {
		s.drops.total += uint64(now - s.drops.seen)
		s.drops.seen = now
	}
	return s.drops.total
}

// watch makes Close wake p. It reports false if s is closed already.
func (s *Socket) watch(p *Poller) bool {
	s.watchers.Lock()
	defer s.watchers.Unlock()
	s.watchers.pollers = slices.DeleteFunc(s.watchers.pollers, func(other *Poller) bool {
		return other == p || other.closed.Load()
	})
	s.watchers.pollers = append(s.watchers.pollers, p)
	return !s.fd.closing.Load()
}

func (s *Socket) unwatch(p *Poller) {
	s.watchers.Lock()
	defer s.watchers.Unlock()
	s.watchers.pollers = slices.DeleteFunc(s.watchers.pollers, func(other *Poller) bool { return other == p })
}

// Close closes the socket and wakes every Poller that watches it; from then on Fill
// returns net.ErrClosed and what a Batch holds for the socket is dropped. A second
// Close returns net.ErrClosed.
func (s *Socket) Close() error {
	if !s.fd.close(func(fd int) { s.countDrops(fd) }) {
		return net.ErrClosed
	}
	// The kernel tells nobody: it forgets a closed socket before a watcher can look.
	s.watchers.Lock()
	defer s.watchers.Unlock()
	for _, p := range s.watchers.pollers {
		p.Wake()
	}
	s.watchers.pollers = nil
	return nil
}
