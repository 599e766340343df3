package flows

import (
	"bufio"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/netns"
)

// End is one of the two ends of all flows.
type End struct {
	Name      string
	Namespace *netns.Namespace
	// Local are the IPv4 and the IPv6 addresses of this end, Remote those under which it reaches
	// the other one. Each connection and each UDP flow uses one of each at random, so that
	// flows are spread by ports and by addresses.
	Local, Remote [2][]netip.Addr
}

// Set is a number of flows. Safe for concurrent use.
type Set struct {
	Flows []*Flow // in order of their IDs

	begun  time.Time
	period time.Duration
	ends   [2]End
	tasks  sync.WaitGroup

	mu      sync.Mutex       // protects the fields below
	opened  map[int]net.Conn // sockets of the openers by the ID of the flow
	answers map[int]net.Conn // of the accepting ends
}

// port is the number of the UDP and the TCP port at both ends.
const port = 7001

// Start starts count flows, half of them UDP and half of them the two directions of TCP
// connections, each half in both IP families and opened by both ends. Each flow sends a
// message every period until the test ends. count is rounded up to a multiple of 8.
func Start(t testing.TB, ends [2]End, count int, period time.Duration) *Set {
	t.Helper()
	s := &Set{begun: time.Now(), period: period, ends: ends, opened: map[int]net.Conn{}, answers: map[int]net.Conn{}}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); s.tasks.Wait() })
	each := (count + 7) / 8
	for range each {
		for opener := range 2 {
			if len(s.Flows) >= 4*each {
				break
			}
			for family := range 2 {
				s.add("tcp", family, opener)
				s.add("tcp", family, 1-opener)
			}
		}
	}
	for range each {
		for family := range 2 {
			s.add("udp", family, 0)
			s.add("udp", family, 1)
		}
	}
	for i := range ends {
		s.listen(ctx, t, i)
	}
	for _, f := range s.Flows {
		switch {
		case !f.TCP():
			s.tasks.Go(func() { s.sendDatagrams(ctx, f) })
		case f.ID%2 == 0:
			s.tasks.Go(func() { s.keepConnection(ctx, f) })
		}
	}
	return s
}

var families = [2]string{"4", "6"}

func (s *Set) add(protocol string, family, from int) {
	s.Flows = append(s.Flows, &Flow{ID: len(s.Flows), Class: protocol + families[family], From: s.ends[from].Name})
}

func (s *Set) now() time.Duration { return time.Since(s.begun) }

// Begin starts a measurement of all flows.
func (s *Set) Begin() {
	for _, f := range s.Flows {
		f.begin()
	}
}

// Timeouts returns the retransmission timeouts (RFC 6298) that the kernel has now for the open ends of the TCP
// connections.
func (s *Set) Timeouts() (all []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conns := range []map[int]net.Conn{s.opened, s.answers} {
		for _, conn := range conns {
			tcp, ok := conn.(*net.TCPConn)
			if !ok {
				continue
			}
			raw, err := tcp.SyscallConn()
			if err != nil {
				continue // closed
			}
			_ = raw.Control(func(fd uintptr) {
				if info, err := unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO); err == nil {
					all = append(all, time.Duration(info.Rto)*time.Microsecond)
				}
			})
		}
	}
	return all
}

// Outcomes returns the results of the measurement so far, by the ID of the flow.
func (s *Set) Outcomes() (all []Outcome) {
	now := s.now()
	for _, f := range s.Flows {
		all = append(all, f.outcome(now))
	}
	return all
}

// Down returns the flows that have waited longer than a time for a delivery.
func (s *Set) Down(limit time.Duration) (some []*Flow) {
	now := s.now()
	for _, f := range s.Flows {
		if f.down(now, limit) {
			some = append(some, f)
		}
	}
	return some
}

// Mark returns the number of the next message of each flow, by its ID.
func (s *Set) Mark() (next []uint64) {
	for _, f := range s.Flows {
		f.mu.Lock()
		next = append(next, f.next)
		f.mu.Unlock()
	}
	return next
}

// Silent returns the flows of which fewer than so many messages were sent from the mark on until the one
// that was delivered last.
func (s *Set) Silent(mark []uint64, messages uint64) (some []*Flow) {
	for _, f := range s.Flows {
		if !f.delivered(mark[f.ID] + messages - 1) {
			some = append(some, f)
		}
	}
	return some
}

// Renew opens new sockets for all flows, like new clients do: with other ports and addresses.
// Connections that it closes do not count as ended.
func (s *Set) Renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, conn := range s.opened {
		delete(s.opened, id)
		_ = conn.Close()
	}
}

// renewed reports whether Renew has closed the socket of a flow, and forgets it otherwise.
func (s *Set) renewed(f *Flow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, open := s.opened[f.ID]
	delete(s.opened, f.ID)
	return !open
}

// dial opens a socket for a flow.
func (s *Set) dial(f *Flow) (conn net.Conn, err error) {
	from, family := s.ends[0], 0
	if f.From == s.ends[1].Name {
		from = s.ends[1]
	}
	if f.Class[3:] == families[1] {
		family = 1
	}
	pick := func(all []netip.Addr) netip.Addr { return all[rand.IntN(len(all))] }
	local := netip.AddrPortFrom(pick(from.Local[family]), 0)
	dialer := net.Dialer{Timeout: time.Second, LocalAddr: net.UDPAddrFromAddrPort(local)}
	if f.TCP() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(local)
	}
	to := netip.AddrPortFrom(pick(from.Remote[family]), port).String()
	err = from.Namespace.In(func() error {
		conn, err = dialer.Dial(f.Class[:3], to)
		return err
	})
	if err == nil {
		s.mu.Lock()
		s.opened[f.ID] = conn
		s.mu.Unlock()
	}
	return conn, err
}

// each calls do every period, from a random moment on, until ctx ends or do fails.
func (s *Set) each(ctx context.Context, do func() error) {
	first := time.NewTimer(rand.N(s.period))
	defer first.Stop()
	select {
	case <-ctx.Done():
		return
	case <-first.C:
	}
	ticks := time.NewTicker(s.period)
	defer ticks.Stop()
	for do() == nil {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// write sends the next message of a flow.
func (s *Set) write(conn net.Conn, f *Flow, message []byte) error {
	makeMessage(message, f.ID, f.send(s.now()))
	_, err := conn.Write(message)
	return err
}

// take records a received message.
func (s *Set) take(message []byte) (f *Flow) {
	id, number, ok := parseMessage(message)
	if !ok || id >= len(s.Flows) {
		return nil
	}
	s.Flows[id].deliver(number, s.now())
	return s.Flows[id]
}

func (s *Set) sendDatagrams(ctx context.Context, f *Flow) {
	message := make([]byte, size)
	for ctx.Err() == nil {
		conn, err := s.dial(f)
		if err != nil {
			return // the flow is never up
		}
		s.each(ctx, func() error {
			if err := s.write(conn, f, message); errors.Is(err, net.ErrClosed) {
				return err // renewed
			}
			return nil // an ICMP error is about an earlier message, which is lost
		})
		_ = conn.Close()
	}
}

// receiveBuffer is the size of the buffers of UDP sockets in bytes. A message that waits in
// it while this process gets no CPU time is not lost.
const receiveBuffer = 4 << 20

func (s *Set) listen(ctx context.Context, t testing.TB, end int) {
	t.Helper()
	large := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		failed := c.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer)
		})
		return errors.Join(failed, err)
	}}
	var datagrams net.PacketConn
	var connections net.Listener
	err := s.ends[end].Namespace.In(func() (err error) {
		at := netip.AddrPortFrom(netip.IPv6Unspecified(), port).String()
		if datagrams, err = large.ListenPacket(ctx, "udp", at); err != nil {
			return err
		}
		connections, err = net.Listen("tcp", at)
		return err
	})
	if datagrams != nil {
		context.AfterFunc(ctx, func() { _ = datagrams.Close() })
	}
	if err != nil {
		t.Fatal(err)
	}
	context.AfterFunc(ctx, func() { _ = connections.Close() })
	s.tasks.Go(func() {
		message := make([]byte, size)
		for {
			if _, _, err := datagrams.ReadFrom(message); err != nil {
				return // closed
			}
			s.take(message)
		}
	})
	s.tasks.Go(func() {
		for {
			conn, err := connections.Accept()
			if err != nil {
				return // closed
			}
			s.tasks.Go(func() { s.answer(ctx, conn) })
		}
	})
}

// keepConnection keeps the connection of a flow and its opposite.
func (s *Set) keepConnection(ctx context.Context, f *Flow) {
	for ctx.Err() == nil {
		conn, err := s.dial(f)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		s.converse(ctx, conn, bufio.NewReader(conn), f)
		if !s.renewed(f) && ctx.Err() == nil {
			f.end()
			s.Flows[f.ID^1].end()
		}
	}
}

// answer is the accepting end of a connection. The first message says which one it is.
func (s *Set) answer(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	from, message := bufio.NewReader(conn), make([]byte, size)
	if _, err := io.ReadFull(from, message); err != nil {
		return
	}
	f := s.take(message)
	if f == nil {
		return
	}
	back := s.Flows[f.ID^1]
	s.mu.Lock()
	if earlier := s.answers[back.ID]; earlier != nil {
		_ = earlier.Close() // its other end is gone
	}
	s.answers[back.ID] = conn
	s.mu.Unlock()
	s.converse(ctx, conn, from, back)
}

// converse sends a flow over a connection, and receives the opposite one, until the
// connection ends.
func (s *Set) converse(ctx context.Context, conn net.Conn, from io.Reader, f *Flow) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var reader sync.WaitGroup
	reader.Go(func() {
		defer cancel()
		message := make([]byte, size)
		for {
			if _, err := io.ReadFull(from, message); err != nil {
				return
			}
			s.take(message)
		}
	})
	message := make([]byte, size)
	s.each(ctx, func() error { return s.write(conn, f, message) })
	cancel()
	_ = conn.Close()
	reader.Wait()
}
