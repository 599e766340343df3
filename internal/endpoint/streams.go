//go:build linux

package endpoint

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	streamBeat  = 20 * time.Millisecond // between the datagrams of a flow
	streamHops  = 25                    // beats between questions for the gateways of a flow
	streamGrace = time.Second           // after which a datagram without an answer is lost
	streamHit   = 200 * time.Millisecond
)

// Streams keeps flows busy until ctx ends. For each value of ask, it calls tell with the
// result since the one before, a second later.
func Streams(ctx context.Context, o StreamsOrder, ask <-chan struct{}, tell func(StreamsResult)) {
	ctx, end := context.WithTimeout(ctx, o.Longest)
	var running sync.WaitGroup
	defer running.Wait()
	defer end()
	var all []*stream
	for _, to := range o.To {
		for range o.TCP {
			s := newStream(TCP, to)
			all = append(all, s)
			running.Go(func() { s.connections(ctx, o.Marker) })
		}
		for range o.UDP {
			s := newStream(UDP, to)
			all = append(all, s)
			running.Go(func() { s.datagrams(ctx, o.Marker) })
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ask:
		}
		now := time.Now()
		ends := make([]uint64, len(all))
		for i, s := range all {
			ends[i] = s.sentUntil()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(streamGrace - time.Since(now)):
		}
		var r StreamsResult
		for i, s := range all {
			s.addTo(&r, ends[i])
		}
		tell(r)
	}
}

// stream is a flow and what it has lost.
type stream struct {
	Check
	mu         sync.Mutex
	begin      uint64          // the number of the first datagram since the last result
	next       uint64          // the number of the next one
	answered   map[uint64]bool // from begin on
	duplicated int64           // answers since the last result that had arrived before
	lastAnswer time.Time
	gap        time.Duration
	broken     int
	gateways   [2]netip.Addr // of the path: of its own cluster, of the remote one; invalid = not known yet
	moved      bool
}

func newStream(protocol Protocol, to netip.AddrPort) *stream {
	c := Check{ID: "stream", Protocol: protocol, To: to, Mode: Whole}
	c.Size = c.overhead() + 2*headLen
	return &stream{Check: c, answered: make(map[uint64]bool), lastAnswer: time.Now()}
}

// connections sends on a connection, and opens another one when it ends.
func (s *stream) connections(ctx context.Context, m Marker) {
	for ctx.Err() == nil {
		conn, r := s.dial(ctx)
		if conn == nil {
			pause(ctx, again)
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
		pace(ctx, m, conn, r, s.answer)
		stop()
		_ = conn.Close()
		if ctx.Err() == nil {
			s.mu.Lock()
			s.broken++
			s.mu.Unlock()
		}
	}
}

func (s *stream) datagrams(ctx context.Context, m Marker) {
	var to *socket
	for to == nil && ctx.Err() == nil {
		var err error
		if to, err = s.open(); err != nil {
			pause(ctx, again)
		}
	}
	if to == nil {
		return
	}
	var reading sync.WaitGroup
	defer reading.Wait()
	defer to.Close()
	reading.Go(func() { s.read(ctx, to) })
	tick := time.NewTicker(streamBeat)
	defer tick.Stop()
	for beat := 0; ctx.Err() == nil; beat++ {
		s.mu.Lock()
		number := s.next
		s.next++
		s.mu.Unlock()
		b := s.packet(m, number)
		if _, err := to.Write(b); errors.Is(err, unix.EHOSTUNREACH) {
			_, _ = to.Write(b) // it was an error of a question; any other failure shows as a missing answer
		}
		if beat%streamHops == 0 {
			for _, d := range to.discards() {
				s.passes(d)
			}
			hops := gatewayHop + beat/streamHops%len(s.gateways)
			_ = to.writeLimited(s.packet(m, askHop(hops)), hops, s.To.Addr().Is6())
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// read counts the answers to datagrams until the socket is closed.
func (s *stream) read(ctx context.Context, from *socket) {
	b := make([]byte, largest)
	for {
		n, err := from.Read(b)
		switch {
		case errors.Is(err, os.ErrClosed) || ctx.Err() != nil:
			return
		case err != nil: // an ICMP error
			pause(ctx, time.Millisecond)
			continue
		}
		if _, number, ok := parseReply(b[:n]); ok {
			s.answers(number)
			s.answer()
		}
	}
}

// answers notes the answer to a datagram. One to a datagram of an earlier result is ignored.
func (s *stream) answers(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case number < s.begin || number >= s.next:
	case s.answered[number]:
		s.duplicated++
	default:
		s.answered[number] = true
	}
}

// askHop is the number in a datagram that is to be discarded by a router.
func askHop(hops int) uint64 { return math.MaxUint64 - uint64(hops) }

// passes notes a gateway in the path of the flow.
func (s *stream) passes(d discarded) {
	number, ok := parseRequest(d.sent)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.gateways {
		if was := &s.gateways[i]; ok && number == askHop(gatewayHop+i) {
			s.moved = s.moved || was.IsValid() && *was != d.by
			*was = d.by
		}
	}
}

// answer notes that an answer has arrived.
func (s *stream) answer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.gap, s.lastAnswer = max(s.gap, now.Sub(s.lastAnswer)), now
}

func (s *stream) sentUntil() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// addTo adds what the flow has lost to a result, up to the datagram before end.
func (s *stream) addTo(r *StreamsResult, end uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := StreamsResult{Flows: 1, Gap: max(s.gap, time.Since(s.lastAnswer)), Duplicated: s.duplicated, Broken: s.broken}
	if is.Gap >= streamHit {
		is.Hit++
	}
	if s.moved {
		is.Moved++
	}
	for ; s.begin < end; s.begin++ {
		is.Sent++
		if !s.answered[s.begin] {
			is.Lost++
		}
		delete(s.answered, s.begin)
	}
	r.Add(is)
	s.gap, s.duplicated, s.broken, s.moved = 0, 0, 0, false
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
