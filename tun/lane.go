package tun

import (
	"errors"
	"slices"
	"sync"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/underlay"
)

// lane is a share of the frames from nodes: a socket on each address of the overlay. The kernel selects
// the lane of a frame (underlay.Group), and one device reads it.
type lane struct {
	link *Link // whose device reads it; nil: the fallback does. Protected by the director's mu
	live bool  // frames are directed to it; protected by the director's mu
	// weight is that of link, see LinkConfig; protected by the director's mu.
	weight int

	mu      sync.Mutex // held by the reading device; contended only while the lane changes hands
	sources []*source
	turns   *underlay.Turns // of sources
	// pieces are those left of the current packet when bufs were full. They stay here, with the
	// receive memory that they alias, when another device continues.
	pieces packet.Pieces
}

func newLane() *lane { return &lane{turns: underlay.NewTurns()} }

// source is one listening socket.
type source struct {
	socket        *underlay.Socket
	encapsulation gateway.Encapsulation
	// isFrame reports whether a message with a segment size is one frame: a node on this machine sent UDP that its kernel
	// left unsegmented, and the size is that of the inner UDP packet. Usually the message consists of several frames that
	// the kernel coalesced.
	isFrame func(message []byte) bool
}

func (l *lane) add(s *underlay.Socket, e gateway.Encapsulation) {
	l.sources = append(l.sources, &source{s, e, func(message []byte) bool { return gateway.SpansFrame(message, e) }})
	l.turns.Add(s)
}

// current returns the source whose datagrams are being read.
func (l *lane) current() *source { return l.sources[l.turns.Current()] }

// empty reports whether the lane has nothing that was not processed.
func (l *lane) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.pieces.Left() && !l.turns.Holds() && !slices.ContainsFunc(l.sources, func(s *source) bool { return !s.socket.Empty() })
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
