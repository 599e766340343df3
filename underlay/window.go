//go:build linux

package underlay

import (
	"encoding/binary"
	"sync/atomic"
	"time"
)

// WireGuard keeps every message passed to it in a buffer of 64 KiB, and queues up to 1024 batches of 128 for each
// peer: 8 GiB if the reader of the decrypted packets does not keep up. WireGuard has no setting for a lower limit, so
// a link limits the messages that it passes on.

const (
	// maxPending is the maximum number of data messages pending in WireGuard: 128 MiB of buffers, of which a page
	// each is resident, and 2 ms of a million packets a second.
	maxPending = 2048
	// controlPending is how many more messages of ControlSize may be pending.
	controlPending = 64
	// windowQuiet is how long a link must be idle before messages still missing count as dropped by WireGuard, if none of
	// the later ones has come out.
	windowQuiet = 2 * time.Millisecond
	// windowSize is the number of messages that are remembered: more than may be pending.
	windowSize = 2 * maxPending
)

// Window reports to a link which of its messages were processed, and how many the link has sent. The reader of the
// decrypted packets calls Begin and End around each batch, from one goroutine. The zero value is ready for use; each link
// has its own.
//
// WireGuard drops some messages without a report: forged, replayed, not allowed, and empty ones. But it keeps the order,
// so none that was passed on before a message that comes out is pending.
type Window struct {
	passed   [windowSize]uint64 // identity of each data message passed on, by its number
	handed   atomic.Uint64      // messages passed on
	finished atomic.Uint64      // of these, all up to the last one that has come out
	busy     atomic.Bool
	sent     atomic.Uint64
}

// Begin marks the start of a batch. WireGuard delivers nothing else until End.
func (w *Window) Begin() { w.busy.Store(true) }

// End marks the end of a batch. last is its last message, of which WireGuard has decrypted all but the header, in place.
func (w *Window) End(last []byte) {
	defer w.busy.Store(false)
	finished, which := w.finished.Load(), identity(last)
	for number, handed := finished, w.handed.Load(); number < handed; number++ {
		if w.passed[number%windowSize] == which {
			w.finished.CompareAndSwap(finished, number+1) // else all of them have been given up meanwhile
			return
		}
	}
}

// identity tells a data message from all others of a session, and from nearly all of other sessions: by its counter and the
// receiver's index.
func identity(message []byte) uint64 {
	if len(message) < transportHeader {
		return 0
	}
	return binary.LittleEndian.Uint64(message[8:]) ^ uint64(binary.LittleEndian.Uint32(message[4:]))<<32
}

// Sent returns the number of data messages that WireGuard has passed to the link. While it has no session, it sends none
// and keeps what it is given. Safe for concurrent use.
func (w *Window) Sent() uint64 { return w.sent.Load() }

// countSent counts messages of one call of Send if they are data. w may be nil.
func (w *Window) countSent(messages [][]byte) {
	if w != nil && len(messages) > 0 && isData(messages[0]) { // WireGuard never mixes handshakes and data
		w.sent.Add(uint64(len(messages)))
	}
}

// isData reports whether a WireGuard message is of the type for data.
func isData(message []byte) bool {
	return len(message) >= minMessageSize && binary.LittleEndian.Uint32(message) == messageTransport
}

// pending counts the data messages of a session that WireGuard has not delivered. Only for the receiving goroutine.
type pending struct {
	window   *Window // nil: no limit
	handed   uint64  // as window.handed, which is updated once per batch
	finished uint64  // of window, when last looked at
	quiet    time.Time
}

func newPending(w *Window) pending {
	p := pending{window: w}
	if w != nil {
		p.handed = w.handed.Load()
		p.giveUp()
	}
	return p
}

// look looks how many messages are finished. Another processor writes that number, so it is read once per batch, and when
// the limit seems to be reached.
func (p *pending) look() {
	if p.window != nil {
		p.finished = p.window.finished.Load()
	}
}

// pass notes that a data message is passed on.
func (p *pending) pass(message []byte) {
	p.window.passed[p.handed%windowSize] = identity(message)
	p.handed++
}

// publish lets the window look for the messages that were passed on. It comes before they are passed to WireGuard.
func (p *pending) publish() {
	if p.window != nil && p.window.handed.Load() != p.handed {
		p.window.handed.Store(p.handed)
	}
}

// giveUp takes all pending messages for dropped.
func (p *pending) giveUp() {
	p.publish()
	p.finished = p.handed
	p.window.finished.Store(p.handed)
}

// hasCapacity reports whether another data message may be passed on; control is whether it has ControlSize. It reads the clock only when the limit is reached.
func (p *pending) hasCapacity(control bool, clock func() time.Time) bool {
	if p.window == nil {
		return true
	}
	if p.handed-p.finished >= maxPending {
		p.look()
	}
	pending := p.handed - p.finished
	if pending < maxPending {
		p.quiet = time.Time{}
		return true
	}
	if control && pending < maxPending+controlPending {
		return true
	}
	now := clock()
	switch {
	case p.window.busy.Load():
		p.quiet = time.Time{}
	case p.quiet.IsZero():
		p.quiet = now
	case now.Sub(p.quiet) >= windowQuiet:
		p.giveUp()
		p.quiet = time.Time{}
		return true
	}
	return false
}
