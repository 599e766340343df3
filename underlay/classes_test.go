package underlay

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/conn"

	"strait.dev/strait/test/wait"
)

// classified is a socket with the classes of a program, and a receiver.
func classified(t *testing.T, addr netip.AddrPort, p Program) (*Socket, *Receiver) {
	t.Helper()
	s := open(t, addr, Options{})
	s.Classify(p, Options{})
	return s, NewReceiver(s)
}

// class returns the socket of a class.
func (s *Socket) class(i int) *Socket {
	if i == 0 {
		return s
	}
	return s.others()[i-1]
}

// spread makes s sort datagrams, as after an overflow.
func spread(t *testing.T, s *Socket) {
	t.Helper()
	if !s.spread() {
		t.Fatal("the kernel does not sort datagrams")
	}
	s.classes.calm, s.classes.checked = time.Now().Add(time.Hour), time.Now().Add(time.Hour) // no review
}

// holds waits until a class has received something.
func holds(t *testing.T, s *Socket, class int) {
	t.Helper()
	untilItHolds(t, s.class(class))
}

func TestMessagesAreClassifiedByTypeAndLength(t *testing.T) {
	t.Parallel()
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		s, r := classified(t, addr, byMessage)
		spread(t, s)
		sender, b := open(t, addr, Options{}), NewBatch(1)
		for i, c := range []struct {
			message []byte
			class   int
		}{
			{transport(1, 1452), 0}, {transport(1, initiationSize+1), 0}, {transport(1, initiationSize), 1}, {transport(1, 32), 1},
			{transport(1, ControlSize), 2}, {initiation(1), 2}, {response(1, 2), 2}, {wireguard(messageCookie, 64, 4, 1), 2},
			{[]byte("?"), 2}, {nil, 0},
		} {
			b.Add(sender, destination(s), nil, c.message)
			b.Flush()
			holds(t, s, c.class)
			if n, err := r.Fill(); n != 1 || err != nil {
				t.Fatalf("message %d: received %d, %v", i, n, err)
			}
			r.Next()
		}
	}
}

// Senders are in several classes, and one of them always in the same.
func TestSendersAreSpreadOverClasses(t *testing.T) {
	t.Parallel()
	s, r := classified(t, netip.MustParseAddrPort("0.0.0.0:0"), BySource)
	spread(t, s)
	to := NewDestination(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), s.LocalAddr().Port()))
	used := make(map[int]bool)
	b := NewBatch(1)
	for i := range 32 {
		sender := open(t, netip.MustParseAddrPort(fmt.Sprintf("127.77.0.%d:0", i+1)), Options{})
		of := -1
		for range 2 {
			b.Add(sender, &to, nil, []byte("hello"))
			b.Flush()
			class := -1
			wait.Until(t, "a class has received the datagram", func() bool {
				for k := range BySource.classes {
					if n, _ := r.take(s.class(k), 0); n == 1 {
						class = k
					}
				}
				return class >= 0
			})
			if of >= 0 && class != of {
				t.Errorf("a sender is in the classes %d and %d", of, class)
			}
			of = class
		}
		used[of] = true
	}
	if len(used) < BySource.classes/2 {
		t.Errorf("32 senders are in the classes %v", used)
	}
}

func TestIPv6SendersAreClassified(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback6, BySource)
	spread(t, s)
	sender, b := open(t, loopback6, Options{}), NewBatch(1)
	b.Add(sender, destination(s), nil, []byte("hello"))
	b.Flush()
	wait.Until(t, "it is received", func() bool { n, _ := r.Fill(); return n == 1 })
}

// A flood fills the queue of its own class. When it is over, everything arrives in one queue again,
// and nothing that waits in the others is lost.
func TestT8_AFloodFillsOnlyTheQueueOfItsClass(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, byMessage)
	sender, b := open(t, loopback4, Options{DisableGSO: true}), NewBatch(conn.IdealBatchSize)
	send := func(message []byte, count int) {
		for range count {
			b.Add(sender, destination(s), nil, message)
		}
		b.Flush()
	}
	drain := func(of byte) (count int) {
		for n, _ := r.Fill(); n > 0; n, _ = r.Fill() {
			for d, _, ok := r.Next(); ok; d, _, ok = r.Next() {
				if d[0] == of {
					count++
				}
			}
		}
		return count
	}
	overflow := func() {
		before := s.Overflows()
		for s.Overflows() == before {
			send(transport(1, 1400), conn.IdealBatchSize)
		}
	}
	overflow()
	if drain(messageTransport); !r.Spread() {
		t.Fatal("an overflow does not spread datagrams")
	}
	overflow()
	const handshakes = 10
	send(initiation(1), handshakes)
	if n := drain(messageInitiation); n != handshakes {
		t.Errorf("%d of %d handshake messages survived the flood", n, handshakes)
	}

	k, now := s.classes, time.Now().Add(time.Hour)
	send(initiation(1), 1)
	holds(t, s, 2)
	k.overflows = s.Overflows()
	s.review(now)
	if !k.gathered || !k.active {
		t.Error("still spread after the flood")
	}
	now = now.Add(spreadDrain)
	s.review(now)
	now = now.Add(spreadCheck)
	s.review(now)
	if n := drain(messageInitiation); n != 1 || !r.Spread() { // drain reviews at the present time
		t.Errorf("%d messages of another queue, want 1", n)
	}
	s.review(now.Add(spreadCheck))
	if r.Spread() || len(s.others()) > 0 {
		t.Error("the other queues are still open")
	}
	if before := k.overflows; s.Overflows() < before {
		t.Errorf("%d overflows, %d before", s.Overflows(), before)
	}
	send(initiation(1), 1)
	holds(t, s, 0)
}

func TestASocketThatHadClassesSharesItsPortWithNoOther(t *testing.T) {
	t.Parallel()
	s, _ := classified(t, loopback4, byMessage)
	spread(t, s)
	k := s.classes
	k.checked, k.calm, k.gathered = time.Time{}, time.Time{}, true
	k.overflows = s.Overflows()
	s.review(time.Now())
	s.review(time.Now().Add(spreadCheck)) // one queue again
	if other, err := Listen(s.LocalAddr(), Options{ReusePort: true}); err == nil {
		other.Close()
		t.Error("the port is shared")
	}
}

// A queue can overflow before it holds a full batch, if the kernel coalesces.
func TestT8_LargeMessagesOverflowAQueueToo(t *testing.T) {
	t.Parallel()
	s, r := classified(t, loopback4, byMessage)
	sender, b := open(t, loopback4, Options{}), NewBatch(1)
	for s.Overflows() == 0 {
		b.Add(sender, destination(s), nil, transport(1, 60000))
		b.Flush()
	}
	for range reviewFills {
		if n, _ := r.Fill(); n == ReceiveBatch {
			t.Skip("the queue holds a full batch of large messages")
		}
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
		}
	}
	if !r.Spread() {
		t.Error("the overflow was not noticed")
	}
}
