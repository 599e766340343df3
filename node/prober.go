//go:build linux

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
// gateway answers with its state. Safe for concurrent use.
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
		p.readers.Go(func() { p.read(conn) })
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

// read receives answers until the socket is closed.
func (p *Prober) read(conn *net.UDPConn) {
	payload := make([]byte, 2*nodeprobe.Len)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(payload)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if m, ok := nodeprobe.Parse(payload[:n]); err == nil && ok && m.Answer && from.Port() == nodeprobe.Port {
			p.answered(from.Addr().Unmap(), m)
		}
	}
}
