package underlay

import (
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"
)

// bounded is a peer and a link with a window, which has announced the index 1001.
func bounded(t *testing.T) (m *Mux, w *Window, peer, link *opened) {
	t.Helper()
	m, w = NewMux(Options{}), new(Window)
	peer, link = openLink(t, NewMux(Options{}).Link(anyKey), 0), openLink(t, m.BoundedLink(anyKey, w), 0)
	link.send(t, peer.endpoint(t, "127.0.0.1"), initiation(1001))
	peer.next(t, 1)
	return m, w, peer, link
}

// flood sends so many messages, a batch at a time, with a response behind each batch, and
// returns how many of them the link handed in. The responses all arrive.
func flood(t *testing.T, peer, link *opened, message []byte, count int) (handed int) {
	t.Helper()
	to := link.endpoint(t, "127.0.0.1")
	for count > 0 {
		n := min(count, conn.IdealBatchSize-1)
		count -= n
		var bufs [][]byte
		for range n {
			bufs = append(bufs, message)
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
	w.End(more)
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

// What WireGuard drops itself is never reported. It is given up when nothing has come out
// for a while, never while a batch is being dealt with.
func TestT8_WhatNeverComesOutIsGivenUp(t *testing.T) {
	t.Parallel()
	var w Window
	p := newPending(&w)
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	fill := func() {
		t.Helper()
		for n := 0; p.hasCapacity(false, clock); n++ {
			if n > maxPending {
				t.Fatal("no bounds")
			}
			p.handed++
		}
	}
	check := func(what string, want bool) {
		t.Helper()
		if got := p.hasCapacity(false, clock); got != want {
			t.Errorf("%s: room %v, want %v", what, got, want)
		}
	}
	fill()
	now = now.Add(windowQuiet - 1)
	check("not quiet for long", false)
	w.Begin()
	now = now.Add(time.Hour)
	check("a batch is being dealt with", false)
	w.End(0)
	check("it was until now", false)
	now = now.Add(windowQuiet)
	check("quiet", true)

	fill()
	w.Begin()
	w.End(100)
	check("some have come out", true)
	w.Begin()
	w.End(3 * maxPending) // what had been given up comes after all
	p.look()              // as each batch begins
	for n := range maxPending {
		if !p.hasCapacity(false, clock) {
			t.Fatalf("full after %d, want %d", n, maxPending)
		}
		p.handed++
	}
	check("full again", false)

	unbounded := newPending(nil)
	if !unbounded.hasCapacity(false, nil) {
		t.Error("a link without a window is full")
	}
}

// A link that is opened again owes nothing for the time before.
func TestAReopenedLinkHasItsWholeWindow(t *testing.T) {
	t.Parallel()
	var w Window
	w.End(12345)
	p := newPending(&w)
	for range maxPending {
		if !p.hasCapacity(false, time.Now) {
			t.Fatal("full too early")
		}
		p.handed++
	}
	w.Begin()
	if p.hasCapacity(false, time.Now) {
		t.Error("not full")
	}
}

// Probes get past data that fills the window, within limits.
func TestControlMessagesHavePriorityInTheWindow(t *testing.T) {
	t.Parallel()
	var w Window
	w.Begin()
	p := newPending(&w)
	p.handed = maxPending
	if p.hasCapacity(false, time.Now) {
		t.Error("data passes a full window")
	}
	for range controlPending {
		if !p.hasCapacity(true, time.Now) {
			t.Fatal("a control message does not pass a full window")
		}
		p.handed++
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
