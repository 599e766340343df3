package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/nodeprobe"
)

// Prober probes gateways over the overlay: it sends a request of package nodeprobe, and the
// gateway answers with its state. A gateway of an earlier version answers with the ICMP error
// port unreachable, which proves both directions too. Safe for concurrent use.
type Prober struct {
	sockets [2]*net.UDPConn // by family
	readers sync.WaitGroup

	mu      sync.Mutex
	waiting map[uint64]waitingProbe // by sequence
}

// waitingProbe is a probe for which answers are received.
type waitingProbe struct {
	to      netip.Addr
	answers chan nodeprobe.Message // has capacity one
}

// earlierInterval is the interval for gateways of earlier versions, which answer 1000 probes a
// second at most, from all nodes together.
const earlierInterval = 5 * time.Second

// NewProber opens sockets in the calling thread's network namespace. A family that the
// kernel does not support is omitted.
func NewProber() (*Prober, error) {
	p := &Prober{waiting: map[uint64]waitingProbe{}}
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

// Ask sends a probe to a gateway's internal address, and sends it again every
// nodeprobe.RepeatInterval until it is answered. It calls answered with the answer, and with
// further ones until ctx ends: a gateway whose state changes answers its last probe again. The
// error states why there was no answer.
func (p *Prober) Ask(ctx context.Context, to netip.Addr, answered func(nodeprobe.Message)) error {
	conn := p.sockets[familyOf(to)]
	if conn == nil {
		return fmt.Errorf("node: probe %s: the kernel does not support %s", to, familyOf(to))
	}
	answers := make(chan nodeprobe.Message, 1)
	sequence := p.wait(waitingProbe{to, answers})
	defer p.forget(sequence)
	var request [nodeprobe.Len]byte
	nodeprobe.Message{Sequence: sequence}.Put(request[:])
	again := time.NewTicker(nodeprobe.RepeatInterval)
	defer again.Stop()
	for repeat := again.C; ; {
		if repeat != nil {
			_, err := conn.WriteToUDPAddrPort(request[:], netip.AddrPortFrom(to, nodeprobe.Port))
			// The error may belong to an earlier datagram: the next call returns it.
			if err != nil && !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, unix.EHOSTUNREACH) {
				return fmt.Errorf("node: probe %s: %w", to, err)
			}
		}
		select {
		case m := <-answers:
			repeat = nil
			answered(m)
		case <-ctx.Done():
			if repeat == nil {
				return nil
			}
			return fmt.Errorf("node: %s does not answer over the overlay", to)
		case <-repeat:
		}
	}
}

// wait registers a probe under an unused sequence. Sequences are random: a sender that does not
// see the probe cannot answer it.
func (p *Prober) wait(w waitingProbe) (sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		sequence = rand.Uint64()
		if _, taken := p.waiting[sequence]; !taken {
			p.waiting[sequence] = w
			return sequence
		}
	}
}

func (p *Prober) forget(sequence uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, sequence)
}

// answered passes an answer of a host to the probe that it answers, if there is one. A later
// answer replaces an earlier one that is not read yet.
func (p *Prober) answered(by netip.Addr, m nodeprobe.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.waiting[m.Sequence]
	if !ok || w.to != by {
		return
	}
	for {
		select {
		case w.answers <- m:
			return
		default:
		}
		select {
		case <-w.answers:
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

// read receives answers and ICMP errors until the socket is closed.
func (p *Prober) read(read func(func(uintptr) bool) error) {
	var payload [2 * nodeprobe.Len]byte
	var control [512]byte
	for {
		var by netip.Addr
		var m nodeprobe.Message
		err := read(func(fd uintptr) bool {
			var waits bool
			by, m, waits = receive(int(fd), payload[:], control[:])
			return !waits
		})
		if err != nil {
			return
		}
		if by.IsValid() {
			p.answered(by, m)
		}
	}
}

// receive takes an ICMP error or, if there is none, a datagram from a socket. by is invalid
// unless a gateway answers a probe with it. waits is true if there is neither.
func receive(fd int, payload, control []byte) (by netip.Addr, m nodeprobe.Message, waits bool) {
	n, length, _, to, err := unix.Recvmsg(fd, payload, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
	if err == nil {
		m, ok := nodeprobe.Parse(payload[:n]) // the request that the error is about
		if !ok || m.Answer {
			return netip.Addr{}, m, false
		}
		m.Answer, m.Interval = true, earlierInterval
		return unreachablePort(control[:length], to), m, false
	}
	n, _, _, from, err := unix.Recvmsg(fd, payload, nil, unix.MSG_DONTWAIT)
	if err != nil {
		return netip.Addr{}, m, err == unix.EAGAIN // any other is the error of a datagram, which is cleared by this
	}
	m, ok := nodeprobe.Parse(payload[:n])
	if !ok || !m.Answer || portOf(from) != nodeprobe.Port {
		return netip.Addr{}, m, false
	}
	return addressOf(hostOf(from)), m, false
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

func portOf(a unix.Sockaddr) int {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port
	case *unix.SockaddrInet6:
		return a.Port
	}
	return 0
}

// part returns n bytes of b from start on, or nil if b is shorter.
func part(b []byte, start, n int) []byte {
	if len(b) < start+n {
		return nil
	}
	return b[start : start+n]
}
