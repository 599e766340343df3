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

// Prober checks whether hosts on the overlay answer. It sends a UDP datagram to a port
// without a listener, and the answer is the host's ICMP error port unreachable: like a
// ping, it proves both directions. An echo request would need CAP_NET_RAW or a sysctl; this
// needs no privilege. Safe for concurrent use.
type Prober struct {
	sockets [2]*net.UDPConn // by family
	readers sync.WaitGroup

	mu      sync.Mutex
	waiting map[netip.Addr]map[chan<- struct{}]bool
}

// probePort is the discard port (RFC 863), which Strait's hosts never serve.
const probePort = 9

// probeAgain is how long to wait for an answer before the probe is sent again.
const probeAgain = 300 * time.Millisecond

// NewProber opens sockets in the calling thread's network namespace. A family that the
// kernel does not support is omitted.
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

// Close ends running probes.
func (p *Prober) Close() {
	for _, conn := range p.sockets {
		if conn != nil {
			_ = conn.Close() // ends its reader goroutine
		}
	}
	p.readers.Wait()
}

// Ask waits until the host at an address has answered. If ctx ends first, the error states
// why there was no answer.
func (p *Prober) Ask(ctx context.Context, to netip.Addr) error {
	conn := p.sockets[familyOf(to)]
	if conn == nil {
		return fmt.Errorf("node: probe %s: the kernel does not support %s", to, familyOf(to))
	}
	answered := make(chan struct{}, 1)
	p.wait(to, answered)
	defer p.forget(to, answered)
	again := time.NewTicker(probeAgain)
	defer again.Stop()
	for {
		_, err := conn.WriteToUDPAddrPort(nil, netip.AddrPortFrom(to, probePort))
		// The error may belong to an earlier datagram: the next call returns it.
		if err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EHOSTUNREACH) {
			return fmt.Errorf("node: probe %s: %w", to, err)
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

// wantErrors makes a socket queue ICMP errors together with the packets that caused them.
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

// read receives ICMP errors until the socket is closed.
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

// unreachablePort returns the host that a datagram was sent to, if the control messages of
// an error show that this host itself answered with port unreachable. Errors from routers
// in transit prove nothing.
func unreachablePort(control []byte, to unix.Sockaddr) netip.Addr {
	host := addressOf(hostOf(to))
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return netip.Addr{}
	}
	for _, m := range messages {
		// struct sock_extended_err of linux/errqueue.h, and the sockaddr of the error's
		// sender.
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

// part returns n bytes of b from start on, or nil if b is shorter.
func part(b []byte, start, n int) []byte {
	if len(b) < start+n {
		return nil
	}
	return b[start : start+n]
}
