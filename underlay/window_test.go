package underlay

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
)

// bounded is a peer and a link with a window, which has announced the index 1001.
func bounded(t *testing.T) (m *Mux, w *Window, peer, link *opened) {
	t.Helper()
	m, w = NewMux(Options{}), new(Window)
	peer, link = openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, m.Link(anyKey, otherKey, w), 0)
	link.send(t, peer.endpoint(t, "127.0.0.1"), initiation(1001))
	peer.next(t, 1)
	return m, w, peer, link
}

// data returns a data message with the index 1001 and a counter.
func data(counter int) []byte {
	return binary.LittleEndian.AppendUint64(transport(1001, 64)[:8], uint64(counter))[:64]
}

// flood sends so many copies of a message, with counters from 0 on, a batch at a time, with a response behind each batch,
// and returns how many of them the link handed in. The responses all arrive.
func flood(t *testing.T, peer, link *opened, message []byte, count int) (handed int) {
	t.Helper()
	to := link.endpoint(t, "127.0.0.1")
	for counter := 0; counter < count; {
		var bufs [][]byte
		for ; counter < count && len(bufs) < conn.IdealBatchSize-1; counter++ {
			m := bytes.Clone(message)
			binary.LittleEndian.PutUint64(m[8:], uint64(counter))
			bufs = append(bufs, m)
		}
		peer.send(t, to, append(bufs, response(5, 1001))...)
		for last := false; !last; {
			for _, d := range link.next(t, 1) {
				if last = d[0] == messageResponse; !last {
					handed++
				}
			}
		}
	}
	return handed
}

// The reader of the decrypted packets is stuck in a batch: what WireGuard holds stays
// bounded, what comes on top is counted, and handshakes go on.
func TestT8_ALinkHandsInNoMoreThanItsWindow(t *testing.T) {
	t.Parallel()
	m, w, peer, link := bounded(t)
	const more = 500
	w.Begin()
	if handed := flood(t, peer, link, transport(1001, 64), maxPending+more); handed != maxPending {
		t.Errorf("%d handed in, want %d", handed, maxPending)
	}
	if c := m.Counters(); c != (Counters{InboxFull: more}) {
		t.Errorf("counted %+v, want %d", c, more)
	}
	w.End(data(more - 1))
	w.Begin()
	if handed := flood(t, peer, link, transport(1001, 64), 2*more); handed != more {
		t.Errorf("%d came through after %d had been dealt with", handed, more)
	}
}

// Data with indices that no link announced never gets into WireGuard's queues, so it fills
// no window: a sender without a valid index cannot stop a link.
func TestT8_MadeUpIndicesFillNoWindow(t *testing.T) {
	t.Parallel()
	m, w, peer, link := bounded(t)
	w.Begin()
	const many = maxPending + 1000
	if handed := flood(t, peer, link, transport(2002, 64), many); handed != many {
		t.Errorf("%d handed in, want all %d", handed, many)
	}
	if handed := flood(t, peer, link, transport(1001, 64), 10); handed != 10 {
		t.Errorf("then %d of 10 handed in", handed)
	}
	if c := m.Counters(); c != (Counters{}) {
		t.Errorf("counted %+v", c)
	}
}

// passing is a window, and the end that passes messages on, with counters from 0 on.
type passing struct {
	pending
	to   Window
	next int
	now  time.Time
}

func newPassing() *passing {
	p := &passing{now: time.Unix(1000, 0)}
	p.pending = newPending(&p.to)
	return p
}

func (p *passing) capacity() bool {
	return p.hasCapacity(false, func() time.Time { return p.now })
}

// passUpTo passes messages on, as a batch, while there is capacity, but no more than most. It returns how many.
func (p *passing) passUpTo(most int) (passed int) {
	p.look()
	for ; passed < most && p.capacity(); passed++ {
		p.pass(data(p.next))
		p.next++
	}
	p.publish()
	return passed
}

// comesOut is a batch that ends with the message with a counter.
func (p *passing) comesOut(counter int) {
	p.to.Begin()
	p.to.End(data(counter))
}

// What WireGuard drops itself is never reported. It is given up when nothing has come out
// for a while, never while a batch is being dealt with.
func TestT8_WhatNeverComesOutIsGivenUp(t *testing.T) {
	t.Parallel()
	p := newPassing()
	check := func(what string, want bool) {
		t.Helper()
		if got := p.capacity(); got != want {
			t.Errorf("%s: room %v, want %v", what, got, want)
		}
	}
	if n := p.passUpTo(2 * maxPending); n != maxPending {
		t.Fatalf("%d passed on, want %d", n, maxPending)
	}
	p.now = p.now.Add(windowQuiet - 1)
	check("not quiet for long", false)
	p.to.Begin()
	p.now = p.now.Add(time.Hour)
	check("a batch is being dealt with", false)
	p.to.End(data(-1))
	check("it was until now", false)
	p.now = p.now.Add(windowQuiet)
	check("quiet", true)

	if n := p.passUpTo(2 * maxPending); n != maxPending {
		t.Fatalf("after all were given up, %d are passed on, want %d", n, maxPending)
	}
	p.comesOut(maxPending - 1) // what had been given up comes after all
	check("what was given up is not counted twice", false)
	p.comesOut(maxPending + 99)
	if n := p.passUpTo(2 * maxPending); n != 100 {
		t.Errorf("100 came out, and %d are passed on", n)
	}

	unbounded := newPending(nil)
	if !unbounded.hasCapacity(false, nil) {
		t.Error("a link without a window is full")
	}
}

// WireGuard drops nearly all messages, so that the window is nearly full of them, and the others come in short bursts,
// with pauses: each message that comes out proves that those before it do not come any more.
func TestF19_WhatWireGuardDropsFillsNoWindow(t *testing.T) {
	t.Parallel()
	p := newPassing()
	p.passUpTo(maxPending - 38) // all of them are dropped
	for burst := range 10 {
		want := maxPending
		if burst == 0 {
			want = 38
		}
		if n := p.passUpTo(2 * maxPending); n != want {
			t.Fatalf("burst %d: %d passed on, want %d", burst, n, want)
		}
		p.now = p.now.Add(windowQuiet / 2)
		p.comesOut(p.next - 1)
		p.now = p.now.Add(100 * time.Millisecond)
	}
}

// The window follows any order of what is passed on, what comes out and what never does.
func TestAWindowCountsWhatIsPending(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	p := newPassing()
	var inside []int // messages that WireGuard has, in order
	for range 20000 {
		before := p.next
		p.passUpTo(r.IntN(300))
		for counter := before; counter < p.next; counter++ {
			if r.IntN(10) > 0 { // else WireGuard drops it
				inside = append(inside, counter)
			}
		}
		if len(inside) > maxPending {
			t.Fatalf("WireGuard has %d messages", len(inside))
		}
		if out := min(r.IntN(300), len(inside)); out > 0 {
			p.comesOut(inside[out-1])
			inside = inside[out:]
			first := p.next
			if len(inside) > 0 {
				first = inside[0]
			}
			if p.look(); p.handed-p.finished > uint64(p.next-first+300) {
				t.Fatalf("%d messages seem to be pending, and %d are not older than the first that is", p.handed-p.finished, p.next-first)
			}
		}
	}
	if p.next < 1_000_000 {
		t.Errorf("only %d messages were passed on", p.next)
	}
}

// A link that is opened again owes nothing for the time before.
func TestAReopenedLinkHasItsWholeWindow(t *testing.T) {
	t.Parallel()
	p := newPassing()
	for range 3 {
		p.to.Begin() // nothing is given up
		if n := p.passUpTo(2 * maxPending); n != maxPending {
			t.Errorf("%d passed on, want %d", n, maxPending)
		}
		p.pending = newPending(&p.to)
	}
}

// Probes get past data that fills the window, within limits.
func TestControlMessagesHavePriorityInTheWindow(t *testing.T) {
	t.Parallel()
	var w Window
	w.Begin()
	p := newPending(&w)
	for range maxPending {
		p.pass(data(0))
	}
	if p.hasCapacity(false, time.Now) {
		t.Error("data passes a full window")
	}
	for range controlPending {
		if !p.hasCapacity(true, time.Now) {
			t.Fatal("a control message does not pass a full window")
		}
		p.pass(data(0))
	}
	if p.hasCapacity(true, time.Now) {
		t.Error("control messages are not limited")
	}
}

func TestAWindowCountsTheDataThatIsSent(t *testing.T) {
	t.Parallel()
	_, w, peer, link := bounded(t)
	before := w.Sent() // the link has sent an initiation
	link.send(t, peer.endpoint(t, "127.0.0.1"), transport(7, 64), transport(7, 64))
	link.send(t, peer.endpoint(t, "127.0.0.1"), initiation(1002))
	peer.next(t, 3)
	if now := w.Sent(); before != 0 || now != 2 {
		t.Errorf("%d data messages counted before and %d after two were sent, want 0 and 2", before, now)
	}
}
