package underlay

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.zx2c4.com/wireguard/conn"

	"strait.dev/strait/test/wait"
)

func TestLinksOfOneMuxMustAgreeOnThePort(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{})
	first := openLink(t, m.Link(anyKey, otherKey, nil), 0)
	second := m.Link(anyKey, otherKey, nil)
	if _, _, err := second.Open(first.port ^ 1); err == nil || !strings.Contains(err.Error(), fmt.Sprint(first.port)) {
		t.Errorf("another port: %v", err)
	}
	if same := openLink(t, second, first.port); same.port != first.port {
		t.Errorf("port %d, want %d", same.port, first.port)
	}
	first.Close()
	if third := openLink(t, m.Link(anyKey, otherKey, nil), 0); third.port != first.port {
		t.Errorf("port %d, want %d", third.port, first.port)
	}
}

// trio is a peer and two links that share a port, each of which has sent the peer an
// initiation with an index of its own.
func trio(t *testing.T) (m *Mux, peer, one, two *opened) {
	t.Helper()
	m = NewMux(Options{})
	peer, one = openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, m.Link(anyKey, otherKey, nil), 0)
	two = openLink(t, m.Link(anyKey, otherKey, nil), one.port)
	one.send(t, peer.endpoint(t, "127.0.0.1"), initiation(1001))
	two.send(t, peer.endpoint(t, "127.0.0.1"), initiation(2002))
	peer.next(t, 2)
	return m, peer, one, two
}

func TestEachLinkGetsWhatItExpects(t *testing.T) {
	t.Parallel()
	m, peer, one, two := trio(t)
	to := one.endpoint(t, "127.0.0.1")
	cookie := wireguard(messageCookie, 64, 4, 2002)
	peer.send(t, to,
		response(1, 1001), response(1, 2002), cookie,
		transport(2002, 96), transport(1001, 64), transport(2002, 32))
	equal(t, one.next(t, 2), [][]byte{response(1, 1001), transport(1001, 64)})
	equal(t, two.next(t, 4), [][]byte{response(1, 2002), cookie, transport(2002, 96), transport(2002, 32)})
	if two.senders[0].DstToString() != peer.endpoint(t, "127.0.0.1").DstToString() {
		t.Errorf("handed over as from %s", two.senders[0].DstToString())
	}
	if c := m.Counters(); c != (Counters{}) {
		t.Errorf("counted %+v", c)
	}
}

func TestInitiationsGoToEveryLinkOfTheKey(t *testing.T) {
	t.Parallel()
	_, peer, one, two := trio(t)
	peer.send(t, one.endpoint(t, "127.0.0.1"), initiation(5))
	equal(t, one.next(t, 1), [][]byte{initiation(5)})
	equal(t, two.next(t, 1), [][]byte{initiation(5)})
	two.send(t, peer.endpoint(t, "127.0.0.1"), response(2003, 5)) // an answer announces an index too
	peer.next(t, 1)
	peer.send(t, one.endpoint(t, "127.0.0.1"), transport(2003, 48), transport(1001, 48))
	equal(t, one.next(t, 1), [][]byte{transport(1001, 48)}) // one reads for two
	equal(t, two.next(t, 1), [][]byte{transport(2003, 48)})
}

func TestWhatNoLinkExpectsIsDroppedAndCounted(t *testing.T) {
	t.Parallel()
	m, peer, one, two := trio(t)
	two.Close() // its index goes with it
	three := openLink(t, m.Link(anyKey, otherKey, nil), one.port)
	peer.send(t, one.endpoint(t, "127.0.0.1"),
		transport(2002, 32), transport(9, 32), []byte("too short"), bytes.Repeat([]byte{9}, 100), transport(1001, 32))
	equal(t, one.next(t, 1), [][]byte{transport(1001, 32)})
	if c := m.Counters(); c != (Counters{Unknown: 4}) {
		t.Errorf("counted %+v", c)
	}
	three.Close()
}

func TestALinkThatDoesNotKeepUpLosesOnlyItsOwn(t *testing.T) {
	t.Parallel()
	m, peer, one, _ := trio(t)
	const batches = maxQueuedMessages/conn.IdealBatchSize + 2
	for range batches {
		var bufs [][]byte
		for range conn.IdealBatchSize - 1 {
			bufs = append(bufs, transport(2002, 64))
		}
		peer.send(t, one.endpoint(t, "127.0.0.1"), append(bufs, transport(1001, 64))...)
		equal(t, one.next(t, 1), [][]byte{transport(1001, 64)})
	}
	want := uint64(batches*(conn.IdealBatchSize-1) - maxQueuedMessages)
	if c := m.Counters(); c != (Counters{InboxFull: want}) {
		t.Errorf("counted %+v, want %d", c, want)
	}
}

func TestAnotherLinkTakesOverReading(t *testing.T) {
	t.Parallel()
	_, peer, one, two := trio(t)
	to := one.endpoint(t, "127.0.0.1")
	var got [][]byte
	done := make(chan error, 1)
	go func() { // parked when the reader goes
		n, err := two.receive(two.packets, two.sizes, two.senders)
		for i := range n {
			got = append(got, bytes.Clone(two.packets[i][:two.sizes[i]]))
		}
		done <- err
	}()
	sessions := one.Bind.(*linkBind).mux.sessions()
	wait.Until(t, "the second link waits", func() bool {
		waits := &sessions[1].poller.waiting
		if !waits.TryLock() {
			return true
		}
		waits.Unlock()
		return false
	})
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	peer.send(t, to, transport(2002, 77))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	equal(t, got, [][]byte{transport(2002, 77)})
}

func TestLinksComeAndGoUnderTraffic(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{})
	steady := openLink(t, m.Link(anyKey, otherKey, nil), 0)
	peer := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
	to := steady.endpoint(t, "127.0.0.1")
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = peer.Send([][]byte{initiation(1), transport(7, 500), transport(8, 500)}, to)
				runtime.Gosched() // to those who receive
			}
		}
	})
	group.Go(func() {
		for {
			if _, err := steady.receive(steady.packets, steady.sizes, steady.senders); err != nil {
				return
			}
		}
	})
	for i := range 60 {
		l := m.Link(anyKey, otherKey, nil)
		fns, _, err := l.Open(steady.port)
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			o := make([][]byte, 1)
			o[0] = make([]byte, 1<<16)
			_, err := fns[0](o, make([]int, 1), make([]conn.Endpoint, 1))
			got <- err
		}()
		if i%2 == 0 {
			if err := <-got; err != nil { // the initiations reach it
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	steady.Close()
	group.Wait()
}

func TestRoutesAreBounded(t *testing.T) {
	t.Parallel()
	var r routes
	one, two := new(session), new(session)
	r.join(one)
	r.join(two)
	r.learn(1, two)
	for index := uint32(100); index < 100+3*routesPerLink; index++ {
		r.learn(index, one)
		r.learn(index, one) // repeated: takes no second place
		if r.to(index) != one {
			t.Fatalf("index %d is not known", index)
		}
	}
	if n := len(*r.table.Load()); n != routesPerLink+1 {
		t.Errorf("%d indices known", n)
	}
	if r.to(1) != two || r.to(100) != nil {
		t.Error("one link's handshakes cost another its index")
	}
	r.leave(one)
	r.learn(5, one)
	if n := len(*r.table.Load()); n != 1 {
		t.Errorf("%d indices known after one left", n)
	}
}

func TestOverflowsOutliveTheSockets(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{ReceiveBuffer: 4 << 10})
	quiet := openLink(t, m.Link(anyKey, otherKey, nil), 0)
	peer := openLink(t, NewMux(Options{DisableGSO: true}).Link(anyKey, otherKey, nil), 0)
	const sends, each = 4, 100
	for range sends {
		peer.send(t, quiet.endpoint(t, "127.0.0.1"), bytes.Fields(bytes.Repeat([]byte("datagram "), each))...)
	}
	var received atomic.Int64
	go func() {
		for {
			n, err := quiet.receive(quiet.packets, quiet.sizes, quiet.senders)
			if err != nil {
				return
			}
			received.Add(int64(n))
		}
	}()
	wait.Until(t, "each datagram is received or counted", func() bool { return received.Load()+int64(m.Counters().Overflows) == sends*each })
	before := m.Counters().Overflows
	quiet.Close()
	if after := m.Counters().Overflows; before == 0 || after != before {
		t.Errorf("%d overflows, after Close %d", before, after)
	}
}
