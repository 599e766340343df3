package underlay

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// WireGuard keeps every message that is handed to it in a buffer of 64 KiB, and queues up to
// 1024 batches of 128 for each peer: 8 GiB, should whoever takes the decrypted packets not
// keep up. Nothing in it can be told to hold less, so a link hands in less.

const (
	// maxPending is how many data messages WireGuard may have that it has not given on:
	// 256 MiB of buffers, and 4 ms of a million packets a second.
	maxPending = 4096
	// windowQuiet is how long nobody has to be busy with packets of a link before what is
	// still missing counts as dropped by WireGuard: forged, repeated, not allowed, or empty.
	windowQuiet = 2 * time.Millisecond
)

// Window lets a link know what becomes of the packets it received. Whoever takes them from
// WireGuard calls Begin and End round each batch, from one goroutine. The zero value is
// ready; links that have a Window have one each.
type Window struct {
	finished atomic.Uint64
	busy     atomic.Bool
}

// Begin says that a batch is being dealt with. Nothing else comes out of WireGuard until End.
func (w *Window) Begin() { w.busy.Store(true) }

// End says that so many packets have been dealt with.
func (w *Window) End(packets int) {
	w.finished.Add(uint64(packets))
	w.busy.Store(false)
}

// pending are the data messages of a session that WireGuard has not given on. It is for the
// goroutine that receives.
type pending struct {
	window *Window // nil: without bounds
	handed uint64  // data messages, and what the window had finished before the session
	quiet  time.Time
}

func newPending(w *Window) pending {
	if w == nil {
		return pending{}
	}
	return pending{window: w, handed: w.finished.Load()}
}

// hasCapacity tells whether more data messages may be handed in. clock is asked for the time where
// that matters.
func (p *pending) hasCapacity(clock func() time.Time) bool {
	if p.window == nil {
		return true
	}
	finished := p.window.finished.Load()
	p.handed = max(p.handed, finished) // of what had been given up
	if p.handed-finished < maxPending {
		p.quiet = time.Time{}
		return true
	}
	now := clock()
	switch {
	case p.window.busy.Load():
		p.quiet = time.Time{}
	case p.quiet.IsZero():
		p.quiet = now
	case now.Sub(p.quiet) >= windowQuiet:
		p.handed, p.quiet = finished, time.Time{}
		return true
	}
	return false
}

// queues tells whether WireGuard will queue a message for decryption: data under an index
// that the session's link has announced. Of handshakes it queues 1024 and drops the rest,
// and other data it does not keep.
func (s *session) queues(message []byte) bool {
	if len(message) < minMessageSize || binary.LittleEndian.Uint32(message) != messageTransport {
		return false
	}
	index := binary.LittleEndian.Uint32(message[4:])
	if !s.known || index != s.index { // messages come in trains
		if s.link.mux.routes.to(index) != s {
			return false
		}
		s.known, s.index = true, index
	}
	return true
}
