package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/internal/plan"
)

const (
	transferChunk = 256 << 10       // bytes
	dialLimit     = 5 * time.Second // of one connection
)

// transfer sends TCP streams from one pod to another, and measures the throughput and the
// CPU time of the whole process, including both pods' stacks.
func transfer(open opener, streams int, offload bool) func(context.Context, effort) (map[string]float64, error) {
	return func(ctx context.Context, e effort) (_ map[string]float64, err error) {
		x, err := open(ctx, offload)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, x.close()) }()
		window := windowFor(x.far.Features().ReceiveBuffer, streams)
		near, err := startPod(podA, x.path.From, x.path.To, x.nearHead, window)
		if err != nil {
			return nil, err
		}
		defer near.close()
		far, err := startPod(podB, x.far, x.back, x.farHead, window)
		if err != nil {
			return nil, err
		}
		defer far.close()
		listener, err := far.listen(netip.AddrPortFrom(podB, port))
		if err != nil {
			return nil, err
		}
		return measureStreams(ctx, e, listener, streams, func(ctx context.Context) (net.Conn, error) {
			return near.dial(ctx, netip.AddrPortFrom(x.farPod, port))
		})
	}
}

// windowFor returns the TCP window in bytes with which all streams fit a receive queue.
func windowFor(queue, streams int) int {
	const payload, enough = plan.InnerMTU - 40, 1 << 20
	return min(max(queue/datagramCharge*payload/streams, 10*payload), enough)
}

// streams are TCP connections that send continuously.
type streams struct {
	listener net.Listener
	received atomic.Uint64 // bytes
	running  sync.WaitGroup

	mu          sync.Mutex // protects the fields below
	connections []net.Conn
	closed      bool
}

// measureStreams measures so many TCP streams from dial to a listener, which it closes.
func measureStreams(ctx context.Context, e effort, to net.Listener, count int, dial func(context.Context) (net.Conn, error)) (map[string]float64, error) {
	s, err := startStreams(ctx, to, count, dial)
	defer s.close()
	if err != nil {
		return nil, err
	}
	pause(ctx, e.transfer/5) // slow start
	return s.measure(ctx, e.transfer)
}

// startStreams connects to a listener by dial and sends on all connections until close. The
// caller must close the result, even after an error; it closes the listener, too.
func startStreams(ctx context.Context, to net.Listener, count int, dial func(context.Context) (net.Conn, error)) (*streams, error) {
	s := &streams{listener: to}
	s.running.Go(s.accept)
	for range count {
		dialing, cancel := context.WithTimeout(ctx, dialLimit)
		c, err := dial(dialing)
		cancel()
		if err != nil {
			return s, tooBusy{fmt.Errorf("connect the pods: %w", err)}
		}
		s.keep(c, func() {
			chunk := make([]byte, transferChunk)
			for err := error(nil); err == nil; _, err = c.Write(chunk) {
			}
		})
	}
	return s, nil
}

// accept accepts connections and counts the received bytes.
func (s *streams) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.keep(c, func() { _, _ = io.CopyBuffer(counting{&s.received}, onlyReader{c}, make([]byte, transferChunk)) })
	}
}

// keep runs use, which owns a connection, until close.
func (s *streams) keep(c net.Conn, use func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return
	}
	s.connections = append(s.connections, c)
	s.running.Go(use)
}

// counting counts bytes; onlyReader makes io.CopyBuffer use its buffer.
type (
	counting   struct{ n *atomic.Uint64 }
	onlyReader struct{ io.Reader }
)

func (c counting) Write(b []byte) (int, error) {
	c.n.Add(uint64(len(b)))
	return len(b), nil
}

func (s *streams) measure(ctx context.Context, d time.Duration) (map[string]float64, error) {
	clock := measure.NewClock()
	before, err := measure.CPUTime()
	if err != nil {
		return nil, err
	}
	already := s.received.Load()
	if !pause(ctx, d) {
		return nil, context.Cause(ctx)
	}
	after, err := measure.CPUTime()
	if err != nil {
		return nil, err
	}
	arrived, took := float64(s.received.Load()-already), clock.Now()
	if arrived == 0 {
		return nil, tooBusy{errors.New("nothing arrived: the connections stalled; check that \"strait demo\" works")}
	}
	return map[string]float64{
		"bit/s":    8 * arrived / took.Seconds(),
		"CPU-s/GB": measure.PerGB(after-before, arrived),
	}, nil
}

// close ends all connections and waits for their users.
func (s *streams) close() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for _, c := range s.connections {
		_ = c.SetDeadline(time.Unix(1, 0)) // wakes all readers and writers
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}
