package underlay

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/test/wait"
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

// waiting runs Wait in a goroutine; the channel delivers its result.
func waiting(p *Poller, try func() bool) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.Wait(try) }()
	return done
}

// untilItWatches waits until the poller is not paused, as it must be when it parks.
func untilItWatches(t *testing.T, p *Poller) {
	t.Helper()
	wait.Until(t, "the poller watches its sockets", func() bool {
		p.watched.Lock()
		defer p.watched.Unlock()
		return !p.watched.paused
	})
}

// ready reports whether the kernel has something to tell the poller.
func ready(t *testing.T, p *Poller) bool {
	t.Helper()
	var n int
	var failed error
	if err := p.raw.Control(func(fd uintptr) { n, failed = unix.EpollWait(int(fd), make([]unix.EpollEvent, 1), 0) }); err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return n > 0
}

// untilItHolds waits until a datagram is in a socket's queue, and leaves it there.
func untilItHolds(t *testing.T, s *Socket) {
	t.Helper()
	wait.Until(t, "the socket has something to receive", func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(s.fd.number), Events: unix.POLLIN}}, 0)
		return n > 0 && err == nil
	})
}

// What arrives in another queue of a socket, during overload and for some time after it, waits no longer than any other datagram.
func TestEveryQueueOfASocketIsWatched(t *testing.T) {
	t.Parallel()
	for name, watch := range map[string]func(s *Socket) *Poller{
		"opened later": func(s *Socket) *Poller {
			p := newPoller(t, s)
			spread(t, s)
			return p
		},
		"opened before": func(s *Socket) *Poller {
			spread(t, s)
			return newPoller(t, s)
		},
		"opened during a pause": func(s *Socket) *Poller {
			p := newPoller(t, s)
			p.Pause()
			spread(t, s)
			p.resume()
			return p
		},
		"after a pause": func(s *Socket) *Poller {
			p := newPoller(t, s)
			spread(t, s)
			p.Pause()
			p.resume()
			return p
		},
	} {
		s, _ := classified(t, loopback4, byMessage)
		p := watch(s)
		if ready(t, p) {
			t.Errorf("%s: there is nothing to tell", name)
		}
		b := NewBatch(1)
		b.Add(open(t, loopback4, Options{}), destination(s), nil, initiation(1))
		b.Flush()
		holds(t, s, 2)
		if !ready(t, p) {
			t.Errorf("%s: the kernel does not tell of the queue", name)
		}
		p.Pause()
		if ready(t, p) {
			t.Errorf("%s: the kernel tells of the queue during a pause", name)
		}
		p.resume()
		if err := p.Remove(s); err != nil || ready(t, p) {
			t.Errorf("%s: the queue is still watched after Remove: %v", name, err)
		}
	}
}

// A poller whose reader goes away while an overload begins would be woken by each datagram for another one.
func TestASocketIsRemovedThoughItsQueuesAreAboutToBeWatched(t *testing.T) {
	t.Parallel()
	s, _ := classified(t, loopback4, byMessage)
	p := newPoller(t, s)
	if !s.classes.direct(sorting, false) {
		t.Fatal("the kernel does not sort datagrams")
	}
	s.classes.queued.Store(true) // the first half of watchQueues
	if err := p.Remove(s); err != nil {
		t.Error(err)
	}
	sendsTo(t, s)(transport(1, 1452), 1)
	holds(t, s, 0)
	if ready(t, p) {
		t.Error("the kernel tells of a socket that was removed")
	}
}

// With a flood, a reader pauses after nearly each batch: 16 queues must not take 16 system calls.
func TestF19_APollerWatchesAllQueuesByOneSystemCall(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, BySource)
	p := newPoller(t, s)
	spread(t, s)
	kernel, calls := p.epollCtl, 0
	p.epollCtl = func(epoll, operation, fd int, event *unix.EpollEvent) error {
		calls++
		return kernel(epoll, operation, fd, event)
	}
	p.Pause()
	p.resume()
	if calls != 2 {
		t.Errorf("%d system calls for a pause and its end, want 2", calls)
	}
	send := sendsTo(t, s)
	send(probeFrame, 1)
	untilReceived(t, r, p, probeFrame, 1)
	send(dataFrame, 1)
	untilReceived(t, r, p, dataFrame, 1)
}

// A busy reader pauses a thousand times a second: it would leave garbage until the next collection.
func TestPausingAllocatesNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	s, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	p, r := newPoller(t, s), NewReceiver(s)
	to := NewDestination(s.LocalAddr())
	b, payload, messages := NewBatch(1), []byte("one"), 0
	try := func() bool {
		n, err := r.Fill()
		if err != nil {
			t.Fatal(err)
		}
		messages += n
		return n > 0
	}
	if n := testing.AllocsPerRun(100, func() {
		p.Pause()
		if !p.resume() {
			t.Fatal("resume had nothing to do")
		}
		b.Add(from, &to, nil, payload)
		b.Flush()
		if err := p.Wait(try); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("a pause allocates %v times, want 0", n)
	}
	if messages == 0 {
		t.Error("nothing was received")
	}
}

// TestNoWakeUpIsLost plays ping-pong over two sockets and Wake: each of many thousand
// rounds waits for one event that may come before, while, or after try looks.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
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
		case err := <-done:
			t.Fatalf("Wait ended before event %d: %v", i, err)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestConcurrentWakesAreNotLost lets several goroutines count up and wake; the waiter
// must see the last count.
func TestConcurrentWakesAreNotLost(t *testing.T) {
	t.Parallel()
	p := newPoller(t)
	const wakers, each = 4, 5000
	var count atomic.Int64
	done := waiting(p, func() bool { return count.Load() == wakers*each })
	for range wakers {
		go func() {
			for range each {
				count.Add(1)
				p.Wake()
			}
		}()
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAWakeBeforeWaitIsKept(t *testing.T) {
	t.Parallel()
	p := newPoller(t)
	p.Wake()
	tries := 0
	if err := p.Wait(func() bool { tries++; return true }); err != nil || tries != 1 {
		t.Errorf("%d tries, error %v", tries, err)
	}
}

func TestASocketAddedOrFilledBeforehandWakes(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	p, r := newPoller(t), NewReceiver(to)
	done := waiting(p, func() bool { n, _ := r.Fill(); return n > 0 })
	b := NewBatch(1)
	b.Add(from, destination(to), nil, []byte("early"))
	b.Flush()
	if err := p.Add(to); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestARemovedSocketDoesNotWake(t *testing.T) {
	t.Parallel()
	to, from, stays := open(t, loopback4, Options{}), open(t, loopback4, Options{}), open(t, loopback4, Options{})
	p := newPoller(t, to, stays)
	if err := p.Remove(to); err != nil {
		t.Fatal(err)
	}
	var tries atomic.Int64
	var stop atomic.Bool
	done := waiting(p, func() bool { tries.Add(1); return stop.Load() })
	wait.Until(t, "the waiting goroutine has tried", func() bool { return tries.Load() > 0 })
	b := NewBatch(1)
	b.Add(from, destination(to), nil, []byte("unheard"))
	b.Flush()
	untilItHolds(t, to)
	if ready(t, p) {
		t.Error("the kernel tells of a socket that was removed")
	}
	stop.Store(true)
	p.Wake()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := tries.Load(); n != 2 {
		t.Errorf("%d tries, want one before the wake-up and one after it", n)
	}
	b.Add(from, destination(stays), nil, []byte("heard"))
	b.Flush()
	untilItHolds(t, stays)
	if !ready(t, p) {
		t.Error("the kernel does not tell of a socket that is watched")
	}
}

func TestClosingThePollerEndsWait(t *testing.T) {
	t.Parallel()
	p := newPoller(t, open(t, loopback4, Options{}))
	var tried atomic.Bool
	done := waiting(p, func() bool { tried.Store(true); return false })
	wait.Until(t, "the waiting goroutine has tried", tried.Load)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
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
	t.Parallel()
	p := newPoller(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	var left atomic.Bool
	waited := waiting(p, func() bool { close(entered); <-leave; left.Store(true); return true })
	<-entered
	closed := make(chan error, 1)
	go func() {
		err := p.Close()
		if !left.Load() {
			t.Error("closed while try runs")
		}
		closed <- err
	}()
	wait.Until(t, "nothing is left for Close but to wait for try", func() bool { return p.raw.Control(func(uintptr) {}) != nil })
	close(leave)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	<-waited
}

func TestClosingASocketWakes(t *testing.T) {
	t.Parallel()
	s := open(t, loopback4, Options{})
	p, r := newPoller(t, s), NewReceiver(s)
	var tried atomic.Bool
	done := waiting(p, func() bool {
		_, err := r.Fill()
		tried.Store(true)
		return err != nil
	})
	wait.Until(t, "the waiting goroutine has tried", tried.Load)
	s.Close()
	if err := <-done; err != nil {
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
	t.Parallel()
	p, s := newPoller(t), open(t, loopback4, Options{})
	if err := p.Add(s); err != nil {
		t.Fatal(err)
	}
	r := NewReceiver(s)
	sender := open(t, loopback4, Options{})
	const total = 2000
	received, few := 0, make(chan struct{}, total)
	go func() {
		b := NewBatch(1)
		for i := range total {
			b.Add(sender, destination(s), nil, []byte{byte(i)})
			b.Flush()
			if i%7 == 0 {
				<-few // so that the receiver parks now and then
			}
		}
	}()
	for received < total {
		p.Pause()
		if err := p.Wait(func() bool {
			before := received
			for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
				if received%7 == 0 {
					few <- struct{}{}
				}
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
func TestAPauseInEveryTryDoesNotStopReceiving(t *testing.T) {
	t.Parallel()
	p, s := newPoller(t), open(t, loopback4, Options{})
	if err := p.Add(s); err != nil {
		t.Fatal(err)
	}
	r := NewReceiver(s)
	sender := open(t, loopback4, Options{})
	tries, looked := 0, make(chan struct{})
	done := waiting(p, func() bool {
		if tries++; tries <= 3 {
			p.Pause()
		} else if tries == 4 {
			close(looked)
		}
		n, _ := r.Fill()
		return n > 0
	})
	<-looked // the last time before it parks
	untilItWatches(t, p)
	b := NewBatch(1)
	b.Add(sender, destination(s), nil, []byte("hello"))
	b.Flush()
	if err := <-done; err != nil {
		t.Errorf("after %d looks: %v", tries, err)
	}
}

func TestSocketsComeAndGoDuringAPause(t *testing.T) {
	t.Parallel()
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
		done := waiting(p, func() bool { n, _ := r.Fill(); return n > 0 })
		untilItWatches(t, p)
		b := NewBatch(1)
		b.Add(leaves, destination(s), nil, []byte("hello"))
		b.Flush()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		p.Pause()
	}
	if err := p.Remove(leaves); err == nil {
		t.Error("removed a socket that was not there")
	}
}

// refuse makes the kernel seem to refuse to watch sockets until admit is called.
func refuse(p *Poller, reason error) (refused *atomic.Int64, admit func()) {
	refused = new(atomic.Int64)
	var admitted atomic.Bool
	kernel := p.epollCtl
	p.epollCtl = func(epoll, operation, fd int, event *unix.EpollEvent) error {
		if operation == unix.EPOLL_CTL_ADD && !admitted.Load() {
			refused.Add(1)
			return reason
		}
		return kernel(epoll, operation, fd, event)
	}
	return refused, func() { admitted.Store(true) }
}

// The kernel has no memory, or the user has reached fs.epoll.max_user_watches: the socket is
// read anyway, and watched as soon as the kernel allows it.
func TestASocketThatTheKernelRefusesToWatchIsStillRead(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(p *Poller, s *Socket) error{
		"when added":    func(p *Poller, s *Socket) error { return p.Add(s) },
		"after a pause": func(p *Poller, s *Socket) error { p.Pause(); return p.Add(s) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s, sender := newPoller(t), open(t, loopback4, Options{}), open(t, loopback4, Options{})
			refused, admit := refuse(p, unix.ENOSPC)
			if err := add(p, s); err != nil {
				t.Fatal(err)
			}
			r, b := NewReceiver(s), NewBatch(1)
			receive := func() bool { n, _ := r.Fill(); return n > 0 }
			done := waiting(p, receive)
			wait.Until(t, "the kernel has refused", func() bool { return refused.Load() > 0 })
			b.Add(sender, destination(s), nil, []byte("not watched"))
			b.Flush()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
			}
			admit()
			done = waiting(p, receive)
			untilItWatches(t, p)
			b.Add(sender, destination(s), nil, []byte("watched"))
			b.Flush()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if err := p.Remove(s); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAPollerCanRemoveASocketThatTheKernelRefusedToWatch(t *testing.T) {
	t.Parallel()
	p, s := newPoller(t), open(t, loopback4, Options{})
	refuse(p, unix.ENOMEM)
	if err := p.Add(s); err != nil {
		t.Fatal(err)
	}
	if err := p.Remove(s); err != nil {
		t.Error(err)
	}
}
