package underlay

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"strait.dev/strait/test/wait"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// loopback4 and loopback6 let the kernel choose a port.
var (
	loopback4 = netip.MustParseAddrPort("127.0.0.1:0")
	loopback6 = netip.MustParseAddrPort("[::1]:0")
)

// open listens on an address until the test ends. Without IPv6 in the kernel, tests
// of IPv6 are skipped.
func open(tb testing.TB, addr netip.AddrPort, o Options) *Socket {
	tb.Helper()
	s, err := Listen(addr, o)
	if err != nil && addr.Addr().Is6() {
		tb.Skipf("no IPv6 here: %v", err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

// destination is where datagrams for s go.
func destination(s *Socket) *Destination {
	d := NewDestination(s.LocalAddr())
	return &d
}

// payload is a datagram of so many bytes that says which one it is.
func payload(number, size int) []byte {
	b := bytes.Repeat([]byte{byte(number)}, size)
	copy(b, fmt.Sprintf("%06d", number))
	return b
}

// fill waits until r has something.
func fill(tb testing.TB, r *Receiver) (messages int) {
	tb.Helper()
	wait.Until(tb, "a datagram arrives", func() bool {
		var err error
		if messages, err = r.Fill(); err != nil {
			tb.Fatal(err)
		}
		return messages > 0
	})
	return messages
}

// receive fills r until it has so many datagrams, and returns copies of them.
func receive(tb testing.TB, r *Receiver, want int) (datagrams [][]byte, from []netip.AddrPort) {
	tb.Helper()
	for len(datagrams) < want {
		fill(tb, r)
		for {
			d, addr, ok := r.Next()
			if !ok {
				break
			}
			datagrams = append(datagrams, bytes.Clone(d))
			from = append(from, addr)
		}
	}
	return datagrams, from
}

// nothingWaits fails the test if r has another datagram.
func nothingWaits(tb testing.TB, r *Receiver) {
	tb.Helper()
	if n, err := r.Fill(); n != 0 || err != nil {
		tb.Errorf("after all datagrams: %d more messages, error %v", n, err)
	}
}

// equal compares datagrams in order.
func equal(tb testing.TB, got, want [][]byte) {
	tb.Helper()
	if len(got) != len(want) {
		tb.Fatalf("%d datagrams, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			tb.Errorf("datagram %d: %d bytes %.12q, want %d bytes %.12q", i, len(got[i]), got[i], len(want[i]), want[i])
		}
	}
}

// recorder stands between a batch and the kernel: it notes the shape of each message
// and can answer in the kernel's place.
type recorder struct {
	calls  int     // sendmmsg calls
	shapes []shape // messages the kernel took
	answer func(call int, messages []message) (n int, errno unix.Errno, handled bool)
}

// shape of a message: its vectors, and the segment size asked for, 0 for none.
type shape struct{ vectors, segment int }

func record(b *Batch) *recorder {
	r := new(recorder)
	b.send = func(fd int, messages []message) (int, unix.Errno) {
		r.calls++
		if r.answer != nil {
			if n, errno, handled := r.answer(r.calls, messages); handled {
				return n, errno
			}
		}
		n, errno := sendmmsg(fd, messages)
		for i := range messages[:n] {
			r.shapes = append(r.shapes, shapeOf(&messages[i]))
		}
		return n, errno
	}
	return r
}

func shapeOf(m *message) shape {
	s := shape{vectors: int(m.header.Iovlen)}
	if m.header.Control != nil {
		c := &(*controls)(controlPointer(m))[0] // cut comes before mark
		if c.is(unix.IPPROTO_UDP, unix.UDP_SEGMENT) {
			s.segment = int(c.value[0]) | int(c.value[1])<<8
		}
	}
	return s
}

// discard takes messages without the kernel.
func discard(_ int, messages []message) (int, unix.Errno) { return len(messages), 0 }
