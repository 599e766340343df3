package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Prober asks hosts on the overlay for a sign of life. It sends a UDP datagram to a
// port where nobody listens, and the answer is the host's ICMP error, port unreachable:
// like a ping, it proves both ways. An echo request would need CAP_NET_RAW, or a
// sysctl; this needs nothing. It may be used concurrently.
type Prober struct {
	sockets [2]*net.UDPConn // by family
	readers sync.WaitGroup

	mu      sync.Mutex
	waiting map[netip.Addr]map[chan<- struct{}]bool
}

// probePort is discard's (RFC 863), which hosts of Strait never serve.
const probePort = 9

// probeAgain is how long an answer may take before the question is asked again.
const probeAgain = 300 * time.Millisecond

// NewProber opens sockets in the calling thread's network namespace. A family that the
// kernel has not is left out.
func NewProber() (*Prober, error) {
	p := &Prober{waiting: map[netip.Addr]map[chan<- struct{}]bool{}}
	for _, f := range families {
		network := [...]string{"udp4", "udp6"}[f]
		conn, err := net.ListenUDP(network, nil)
		if f == ipv6 && errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("node: open a socket for probes: %w", err)
		}
		p.sockets[f] = conn
		raw, err := conn.SyscallConn()
		if err == nil {
			err = f.wantErrors(raw.Control)
		}
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("node: open a socket for probes: %w", err)
		}
		p.readers.Go(func() { p.read(raw.Read) })
	}
	return p, nil
}

// Close ends what is under way.
func (p *Prober) Close() {
	for _, conn := range p.sockets {
		if conn != nil {
			_ = conn.Close() // ends its reader
		}
	}
	p.readers.Wait()
}

// Ask waits until the host at an address has answered. The error says why it did not
// before ctx ended.
func (p *Prober) Ask(ctx context.Context, to netip.Addr) error {
	conn := p.sockets[familyOf(to)]
	if conn == nil {
		return fmt.Errorf("node: ask %s: the kernel has no %s", to, familyOf(to))
	}
	answered := make(chan struct{}, 1)
	p.wait(to, answered)
	defer p.forget(to, answered)
	again := time.NewTicker(probeAgain)
	defer again.Stop()
	for {
		_, err := conn.WriteToUDPAddrPort(nil, netip.AddrPortFrom(to, probePort))
		// The error may be one that an earlier datagram met: it comes with the next call.
		if err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EHOSTUNREACH) {
			return fmt.Errorf("node: ask %s: %w", to, err)
		}
		select {
		case <-answered:
			return nil
		case <-ctx.Done():
			return fmt.Errorf("node: %s does not answer over the overlay", to)
		case <-again.C:
		}
	}
}

func (p *Prober) wait(to netip.Addr, answered chan<- struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waiting[to] == nil {
		p.waiting[to] = map[chan<- struct{}]bool{}
	}
	p.waiting[to][answered] = true
}

func (p *Prober) forget(to netip.Addr, answered chan<- struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting[to], answered)
	if len(p.waiting[to]) == 0 {
		delete(p.waiting, to)
	}
}

func (p *Prober) answered(by netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.waiting[by] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// wantErrors makes a socket keep ICMP errors with what they are about.
func (f family) wantErrors(control func(func(uintptr)) error) error {
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if f == ipv6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	var err error
	if failed := control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }); failed != nil {
		return failed
	}
	return err
}

// read takes ICMP errors until the socket is closed.
func (p *Prober) read(read func(func(uintptr) bool) error) {
	var payload [64]byte
	var control [512]byte
	for {
		var by netip.Addr
		err := read(func(fd uintptr) bool {
			_, n, _, to, err := unix.Recvmsg(int(fd), payload[:], control[:], unix.MSG_ERRQUEUE)
			if err == nil {
				by = unreachablePort(control[:n], to)
			}
			return err != unix.EAGAIN
		})
		if err != nil {
			return
		}
		if by.IsValid() {
			p.answered(by)
		}
	}
}

// unreachablePort is the host that a datagram was sent to, if the control messages of
// an error say that it was that very host which answered: port unreachable. Errors of
// routers on the way prove nothing.
func unreachablePort(control []byte, to unix.Sockaddr) netip.Addr {
	host := addressOf(hostOf(to))
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return netip.Addr{}
	}
	for _, m := range messages {
		// struct sock_extended_err of linux/errqueue.h, and the sockaddr of who sent the
		// error.
		const origin, kind, code, offender = 4, 5, 6, 16
		if len(m.Data) < offender {
			continue
		}
		var from []byte
		switch what := [3]byte{m.Data[origin], m.Data[kind], m.Data[code]}; {
		case what == [3]byte{unix.SO_EE_ORIGIN_ICMP, 3, 3}: // RFC 792
			from = part(m.Data, offender+4, 4)
		case what == [3]byte{unix.SO_EE_ORIGIN_ICMP6, 1, 4}: // RFC 4443, section 3.1
			from = part(m.Data, offender+8, 16)
		}
		if a := addressOf(from); a.IsValid() && a == host {
			return host
		}
	}
	return netip.Addr{}
}

func hostOf(a unix.Sockaddr) []byte {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Addr[:]
	case *unix.SockaddrInet6:
		return a.Addr[:]
	}
	return nil
}

// part is n bytes of b from start on, or nil if there are not so many.
func part(b []byte, start, n int) []byte {
	if len(b) < start+n {
		return nil
	}
	return b[start : start+n]
}
