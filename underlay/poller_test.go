package underlay

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

func newPoller(tb testing.TB, sockets ...*Socket) *Poller {
	tb.Helper()
	p, err := NewPoller()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { p.Close() })
	for _, s := range sockets {
		if err := p.Add(s); err != nil {
			tb.Fatal(err)
		}
	}
	return p
}

// wait runs Wait in a goroutine; the channel delivers its result.
func wait(p *Poller, try func() bool) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Wait(try) }()
	return done
}

// soon fails the test if nothing comes out of the channel.
func soon(tb testing.TB, done <-chan error) error {
	tb.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(5 * time.Second):
		tb.Fatal("still waiting after 5 s")
		return nil
	}
}

// TestNoWakeUpIsLost plays ping-pong over two sockets and Wake: each of many thousand
// rounds waits for one event that may come before, while, or after try looks.
func TestNoWakeUpIsLost(t *testing.T) {
	const rounds = 6000
	one, two, from := open(t, loopback4, Options{}), open(t, loopback4, Options{}), open(t, loopback4, Options{})
	p := newPoller(t, one, two)
	receivers := []*Receiver{NewReceiver(one), NewReceiver(two)}
	var asked atomic.Int64 // events made by Wake
	var seen int64
	arrived := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		for range rounds {
			err := p.Wait(func() bool {
				progress := false
				if now := asked.Load(); now != seen {
					seen, progress = now, true
				}
				for _, r := range receivers {
					if n, _ := r.Fill(); n > 0 {
						for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
						}
						progress = true
					}
				}
				return progress
			})
			if err != nil {
				done <- err
				return
			}
			arrived <- struct{}{}
		}
		done <- nil
	}()
	b := NewBatch(1)
	for i := range rounds {
		switch i % 3 {
		case 0:
			b.Add(from, destination(one), nil, []byte("one"))
			b.Flush()
		case 1:
			b.Add(from, destination(two), nil, []byte("two"))
			b.Flush()
		case 2:
			asked.Add(1)
			p.Wake()
		}
		select {
		case <-arrived:
		case <-time.After(5 * time.Second):
			t.Fatalf("event %d was lost", i)
		}
	}
	if err := soon(t, done); err != nil {
		t.Error(err)
	}
}

// TestConcurrentWakesAreNotLost lets several goroutines count up and wake; the waiter
// must see the last count.
func TestConcurrentWakesAreNotLost(t *testing.T) {
	p := newPoller(t)
	const wakers, each = 4, 5000
	var count atomic.Int64
	done := wait(p, func() bool { return count.Load() == wakers*each })
	for range wakers {
		go func() {
			for range each {
				count.Add(1)
				p.Wake()
			}
		}()
	}
	if err := soon(t, done); err != nil {
		t.Error(err)
	}
}

func TestAWakeBeforeWaitIsKept(t *testing.T) {
	p := newPoller(t)
	p.Wake()
	tries := 0
	if err := soon(t, wait(p, func() bool { tries++; return true })); err != nil || tries != 1 {
		t.Errorf("%d tries, error %v", tries, err)
	}
}

func TestASocketAddedOrFilledBeforehandWakes(t *testing.T) {
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	p, r := newPoller(t), NewReceiver(to)
	done := wait(p, func() bool { n, _ := r.Fill(); return n > 0 })
	b := NewBatch(1)
	b.Add(from, destination(to), nil, []byte("early"))
	b.Flush()
	if err := p.Add(to); err != nil {
		t.Fatal(err)
	}
	if err := soon(t, done); err != nil {
		t.Error(err)
	}
}

func TestARemovedSocketDoesNotWake(t *testing.T) {
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	p := newPoller(t, to)
	if err := p.Remove(to); err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int64
	var stop atomic.Bool
	done := wait(p, func() bool { tries.Add(1); return stop.Load() })
	for tries.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	b := NewBatch(1)
	b.Add(from, destination(to), nil, []byte("unheard"))
	b.Flush()
	time.Sleep(20 * time.Millisecond)
	if n := tries.Load(); n != 1 {
		t.Errorf("%d tries", n)
	}
	stop.Store(true)
	p.Wake()
	if err := soon(t, done); err != nil {
		t.Error(err)
	}
}

func TestClosingThePollerEndsWait(t *testing.T) {
	p := newPoller(t, open(t, loopback4, Options{}))
	var tried atomic.Bool
	done := wait(p, func() bool { tried.Store(true); return false })
	for !tried.Load() {
		time.Sleep(time.Millisecond)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := soon(t, done); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Wait: %v", err)
	}
	if err := p.Wait(func() bool { return true }); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Wait after Close: %v", err)
	}
	if err := p.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if err := p.Add(open(t, loopback4, Options{})); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Add after Close: %v", err)
	}
	p.Wake() // harmless
}

func TestClosingThePollerWaitsForTry(t *testing.T) {
	p := newPoller(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	waited := wait(p, func() bool { close(entered); <-leave; return true })
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- p.Close() }()
	select {
	case <-closed:
		t.Error("closed while try runs")
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	if err := soon(t, closed); err != nil {
		t.Error(err)
	}
	soon(t, waited)
}

func TestClosingASocketWakes(t *testing.T) {
	s := open(t, loopback4, Options{})
	p, r := newPoller(t, s), NewReceiver(s)
	var tried atomic.Bool
	done := wait(p, func() bool {
		_, err := r.Fill()
		tried.Store(true)
		return err != nil
	})
	for !tried.Load() {
		time.Sleep(time.Millisecond)
	}
	s.Close()
	if err := soon(t, done); err != nil {
		t.Error(err)
	}
	if err := p.Remove(s); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Remove of a closed socket: %v", err)
	}
}

func TestWaitingDoesNotAllocate(t *testing.T) {
	p := newPoller(t)
	progress := func() bool { return true }
	allocations := testing.AllocsPerRun(100, func() {
		p.Wake()
		if err := p.Wait(progress); err != nil {
			t.Fatal(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations per Wake and Wait", allocations)
	}
}

// A paused poller must not miss what comes before or while it parks.
func TestPauseLosesNothing(t *testing.T) {
	p, s := newPoller(t), open(t, loopback4, Options{})
	if err := p.Add(s); err != nil {
		t.Fatal(err)
	}
	r := NewReceiver(s)
	sender := open(t, loopback4, Options{})
	const total = 2000
	go func() {
		b := NewBatch(1)
		for i := range total {
			b.Add(sender, destination(s), nil, []byte{byte(i)})
			b.Flush()
			if i%7 == 0 {
				time.Sleep(10 * time.Microsecond) // let it park now and then
			}
		}
	}()
	for received := 0; received < total; {
		p.Pause()
		if err := p.Wait(func() bool {
			before := received
			for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
				received++
			}
			if n, _ := r.Fill(); n > 0 {
				return true
			}
			return received > before
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// A flood of which nothing is of use pauses the poller at every look: it must not
// park with nothing watched.
func TestAPauseInEveryTryDoesNotDeafen(t *testing.T) {
	p, s := newPoller(t), open(t, loopback4, Options{})
	if err := p.Add(s); err != nil {
		t.Fatal(err)
	}
	r := NewReceiver(s)
	sender := open(t, loopback4, Options{})
	tries, parked := 0, make(chan struct{})
	go func() {
		<-parked
		time.Sleep(5 * time.Millisecond) // it parks after the last look
		b := NewBatch(1)
		b.Add(sender, destination(s), nil, []byte("hello"))
		b.Flush()
	}()
	deaf := time.AfterFunc(5*time.Second, func() { p.Close() })
	defer deaf.Stop()
	err := p.Wait(func() bool {
		if tries++; tries <= 3 {
			p.Pause()
		} else if tries == 4 {
			close(parked)
		}
		n, _ := r.Fill()
		return n > 0
	})
	if err != nil {
		t.Errorf("after %d looks: %v", tries, err)
	}
}

func TestSocketsComeAndGoDuringAPause(t *testing.T) {
	p, stays, leaves, comes := newPoller(t), open(t, loopback4, Options{}), open(t, loopback4, Options{}), open(t, loopback4, Options{})
	for _, s := range []*Socket{stays, leaves} {
		if err := p.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	p.Pause()
	p.Pause()
	if err := errors.Join(p.Remove(leaves), p.Add(comes)); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Socket{stays, comes} {
		r := NewReceiver(s)
		time.AfterFunc(5*time.Millisecond, func() {
			b := NewBatch(1)
			b.Add(leaves, destination(s), nil, []byte("hello"))
			b.Flush()
		})
		if err := p.Wait(func() bool { n, _ := r.Fill(); return n > 0 }); err != nil {
			t.Fatal(err)
		}
		p.Pause()
	}
	if err := p.Remove(leaves); err == nil {
		t.Error("removed a socket that was not there")
	}
}
