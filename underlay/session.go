//go:build linux

package underlay

import (
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.zx2c4.com/wireguard/conn"
)

// session is a link between Open and Close.
type session struct {
	link   *linkBind
	port   *port // of the Mux
	own    *port // of this session; nil = none
	turn   bool  // own is read first
	poller *Poller
	reads  atomic.Bool // whether this session reads the port
	queue  messageQueue
	bounds pending
	known  bool   // whether index is one of the link's
	index  uint32 // of the last data message
	handed bool   // whether it is in port.handed; owned by the reading session

	attempt func() bool // the method value of try, created once because that allocates

	// The current call of receive.
	packets [][]byte
	sizes   []int
	senders []conn.Endpoint
	count   int  // datagrams delivered
	refused bool // further datagrams were refused: WireGuard has too many pending
}

func newSession(l *linkBind, p *port) (*session, error) {
	poller, err := NewPoller()
	if err != nil {
		return nil, err
	}
	s := &session{link: l, port: p, poller: poller, bounds: newPending(l.window)}
	s.attempt = s.try
	return s, nil
}

// takeOver makes s the reader of the port. No other session may be reading it.
func (s *session) takeOver() error {
	for _, socket := range s.port.sockets() {
		if err := s.poller.Add(socket); err != nil {
			return err
		}
	}
	s.reads.Store(true)
	s.poller.Wake() // for datagrams that the port has received but not delivered
	return nil
}

// openOwn opens a port of the session's own. The Mux closes it.
func (s *session) openOwn(o Options) (err error) {
	if s.own, err = openPort(0, o); err != nil {
		return err
	}
	s.own.single = true
	for _, socket := range s.own.sockets() {
		if err := s.poller.Add(socket); err != nil {
			s.own.close()
			return err
		}
	}
	return nil
}

// sendingPort returns the port from which the session sends.
func (s *session) sendingPort() *port {
	if s.own != nil {
		return s.own
	}
	return s.port
}

// receive is the session's conn.ReceiveFunc.
func (s *session) receive(packets [][]byte, sizes []int, senders []conn.Endpoint) (n int, err error) {
	flood := s.count >= ReceiveBatch
	s.packets, s.sizes, s.senders, s.count = packets, sizes, senders, 0
	s.bounds.look()
	for s.count == 0 {
		if flood || s.refused {
			// Let the goroutines that the last call woke run first: in a flood this goroutine
			// never parks, and would only fill WireGuard's queues.
			runtime.Gosched()
			flood, s.refused = false, false
		}
		if err := s.poller.Wait(s.attempt); err != nil {
			return 0, err
		}
	}
	s.bounds.publish()
	return s.count, nil
}

// try delivers available datagrams, those of the queue first: it was filled before s became the
// reader. Progress includes datagrams for other sessions, so that a session without its own still
// returns from Wait to be closed. Of two ports, each is read first every other time: one that has
// delivered something keeps the other from being read.
func (s *session) try() (progress bool) {
	for !s.full() {
		datagram, from, ok := s.queue.take()
		if !ok {
			break
		}
		s.deliver(datagram, from)
	}
	s.turn = !s.turn
	for _, own := range [...]bool{s.turn, !s.turn} {
		switch {
		case own && s.own != nil:
			progress = s.own.read(s) || progress
		case !own && s.reads.Load():
			progress = s.port.read(s) || progress
		}
	}
	return progress || s.count > 0
}

func (s *session) full() bool { return s.count == len(s.packets) }

// deliver copies a datagram to WireGuard, whose buffers hold any size, unless WireGuard has too
// many pending messages.
func (s *session) deliver(datagram []byte, from *Endpoint) {
	if s.bounds.window != nil && s.queues(datagram) {
		if !s.bounds.hasCapacity(len(datagram) == ControlSize, time.Now) {
			s.link.mux.inboxFull.Add(1)
			s.refused = true
			return
		}
		s.bounds.pass(datagram)
	}
	if isResponse(datagram) {
		s.link.crossing.Answered(time.Now())
	}
	s.sizes[s.count] = copy(s.packets[s.count], datagram)
	s.senders[s.count] = from
	s.count++
}

// keep delivers an initiation of the peer after a time, unless one of this end is answered until then.
func (s *session) keep(datagram []byte, from *Endpoint, wait time.Duration) {
	arrived, kept := time.Now(), slices.Clone(datagram)
	time.AfterFunc(wait, func() {
		if !s.link.crossing.Obsolete(arrived) && s.queue.put(kept, from) {
			s.poller.Wake()
		}
	})
}

// queues reports whether WireGuard will queue a message for decryption: data with an index that the session's link has
// announced. WireGuard queues up to 1024 handshakes and drops the rest, and does not keep other data.
func (s *session) queues(message []byte) bool {
	if !isData(message) {
		return false
	}
	index := binary.LittleEndian.Uint32(message[4:])
	if !s.known || index != s.index { // consecutive messages often have the same index
		if s.link.mux.routes.to(index) != s {
			return false
		}
		s.known, s.index = true, index
	}
	return true
}

// Limits of a messageQueue: as much as the largest Fill can bring at once. The memory grows on demand.
const (
	maxQueuedMessages = 4096
	maxQueuedBytes    = 4 << 20
)

// messageQueue holds datagrams that another session received for this one. One goroutine puts while
// another takes; datagrams already taken over are read without the lock.
type messageQueue struct {
	mu      sync.Mutex // protects waiting
	waiting messages

	taken messages // owned by the goroutine that takes
	next  int      // the first unread datagram of taken
}

// messages are datagrams stored in one buffer.
type messages struct {
	bytes []byte
	ends  []int // where each datagram ends in bytes
	from  []*Endpoint
}

func (l *messages) reset() {
	clear(l.from)
	l.bytes, l.ends, l.from = l.bytes[:0], l.ends[:0], l.from[:0]
}

// put copies a datagram into the queue. It reports false if the queue is full.
func (in *messageQueue) put(datagram []byte, from *Endpoint) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	w := &in.waiting
	if len(w.ends) == maxQueuedMessages || len(w.bytes)+len(datagram) > maxQueuedBytes {
		return false
	}
	w.bytes = append(w.bytes, datagram...)
	w.ends = append(w.ends, len(w.bytes))
	w.from = append(w.from, from)
	return true
}

// take returns the next datagram in order of arrival. Its memory is valid until the next take.
func (in *messageQueue) take() (datagram []byte, from *Endpoint, ok bool) {
	if in.next == len(in.taken.ends) {
		in.taken.reset()
		in.next = 0
		in.mu.Lock()
		in.taken, in.waiting = in.waiting, in.taken
		in.mu.Unlock()
		if len(in.taken.ends) == 0 {
			return nil, nil, false
		}
	}
	start := 0
	if in.next > 0 {
		start = in.taken.ends[in.next-1]
	}
	datagram, from = in.taken.bytes[start:in.taken.ends[in.next]], in.taken.from[in.next]
	in.next++
	return datagram, from, true
}
