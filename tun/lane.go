package tun

import (
	"errors"
	"net/netip"
	"slices"
	"sync"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// lane is a share of the frames from nodes: a socket on each address of the overlay. The kernel selects
// the lane of a frame (underlay.Group), and one device reads it.
type lane struct {
	link *Link // whose device reads it; nil: the fallback does. Protected by the fabric's mu
	live bool  // frames are directed to it; protected by the fabric's mu
	// weight is that of link, see LinkConfig; protected by the fabric's mu.
	weight int

	mu      sync.Mutex // held by the reading device; contended only while the lane changes hands
	sources []*source
	turns   underlay.Turns // of sources
	// receiver reads all sources: it is at the end of a batch whenever it goes to the next.
	receiver *underlay.Receiver
	// pieces are those left of the current packet when bufs were full. They stay here, with the
	// receive memory that they alias, when another device continues.
	pieces packet.Pieces
}

func newLane() *lane { return &lane{receiver: underlay.NewReceiver(nil)} }

// source is one listening socket.
type source struct {
	socket        *underlay.Socket
	encapsulation gateway.Encapsulation

	// The message being split: frames of size bytes, the last may be shorter.
	rest  []byte
	size  int
	from  netip.AddrPort
	outer gateway.Outer
}

func (l *lane) add(s *underlay.Socket, e gateway.Encapsulation) {
	l.sources = append(l.sources, &source{socket: s, encapsulation: e})
}

// next returns the next frame of the last Fill. A message with a segment size usually consists
// of several frames that the kernel coalesced. But if a node on this machine sends UDP that its
// kernel left unsegmented, the message is one frame, and the segment size is that of the inner
// UDP packet.
func (s *source) next(r *underlay.Receiver) (frame []byte, datagram int, ok bool) {
	if len(s.rest) == 0 {
		message, size, from, ok := r.Message()
		if !ok {
			return nil, 0, false
		}
		s.from = from
		s.outer = gateway.Outer{Source: from.Addr(), Encapsulation: s.encapsulation, ECN: r.ECN()}
		if size >= len(message) {
			return message, 0, true
		}
		if gateway.SpansFrame(message, s.encapsulation) {
			return message, size, true
		}
		s.rest, s.size = message, size
	}
	n := min(s.size, len(s.rest))
	frame, s.rest = s.rest[:n:n], s.rest[n:]
	return frame, 0, true
}

// current returns the source whose datagrams are being read.
func (l *lane) current() *source { return l.sources[l.turns.Current()] }

// fill receives the next batch from any source; see underlay.Turns.
func (l *lane) fill(p *underlay.Poller, failed func(error)) (messages int) {
	return l.turns.Fill(len(l.sources), p, func(i int) *underlay.Receiver {
		l.receiver.Use(l.sources[i].socket)
		return l.receiver
	}, failed)
}

// empty reports whether the lane has nothing that was not processed.
func (l *lane) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.pieces.Left() && !l.receiver.Holds() && !slices.ContainsFunc(l.sources, func(s *source) bool { return len(s.rest) > 0 || !s.socket.Empty() })
}

// overflows returns what the kernel dropped.
func (l *lane) overflows() (n uint64) {
	for _, s := range l.sources {
		n += s.socket.Overflows()
	}
	return n
}

func (l *lane) pace(on bool) {
	for _, s := range l.sources {
		s.socket.Pace(on)
	}
}

func (l *lane) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	for _, s := range l.sources {
		err = errors.Join(err, s.socket.Close())
	}
	return err
}

// openLane opens another lane, to which no frames are directed yet.
func (o *Overlay) openLane() (*lane, error) {
	l := newLane()
	for _, a := range o.addresses {
		s, err := a.group.Open()
		if err != nil {
			return nil, errors.Join(err, l.close())
		}
		l.add(s, a.encapsulation)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	l.pace(o.paced)
	o.lanes = append(o.lanes, l)
	return l, nil
}

// stopReceiving ends the reception of lanes to which no frames are directed. When it returns, they hold all
// that they will receive.
func (o *Overlay) stopReceiving(lanes []*lane) error {
	var sockets []*underlay.Socket
	for _, l := range lanes {
		for _, s := range l.sources {
			sockets = append(sockets, s.socket)
		}
	}
	return underlay.StopReceiving(sockets...)
}

// closeLane closes a lane that is empty, receives nothing, and is not the only one.
func (o *Overlay) closeLane(l *lane) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := l.close()
	o.overflows += l.overflows()
	o.lanes = slices.DeleteFunc(o.lanes, func(other *lane) bool { return other == l })
	return err
}

// direct makes the kernel direct the frames of each bucket to its lane.
func (o *Overlay) direct(table *[underlay.Buckets]*lane) error {
	var err error
	for i, a := range o.addresses {
		var sockets [underlay.Buckets]*underlay.Socket
		for bucket, l := range table {
			sockets[bucket] = l.sources[i].socket
		}
		err = errors.Join(err, a.group.Direct(&sockets))
	}
	return err
}
