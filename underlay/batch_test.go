package underlay

import (
	"bytes"
	"math/rand"
	"net/netip"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func controlPointer(m *message) unsafe.Pointer { return unsafe.Pointer(m.header.Control) }

// withGSO opens a socket that sends UDP_SEGMENT messages, or skips the test.
func withGSO(tb testing.TB, addr netip.AddrPort) *Socket {
	tb.Helper()
	s := open(tb, addr, Options{})
	if !s.Features().GSO {
		tb.Skip("this kernel does not offer UDP_SEGMENT")
	}
	return s
}

func TestHeadsAndBodiesArriveJoined(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), withGSO(t, loopback4)
	b, r := NewBatch(128), NewReceiver(to)
	rec := record(b)
	var want [][]byte
	for i := range 40 {
		p := payload(i, 1422)
		want = append(want, p)
		switch i % 3 { // any split gives the same size
		case 0:
			b.Add(from, destination(to), p[:22], p[22:])
		case 1:
			b.Add(from, destination(to), nil, p)
		case 2:
			b.Add(from, destination(to), p, nil)
		}
	}
	if sent, dropped := b.Flush(); sent != 40 || dropped != 0 {
		t.Fatalf("sent %d, dropped %d", sent, dropped)
	}
	got, _ := receive(t, NewReceiver(to), 40)
	equal(t, got, want)
	nothingWaits(t, r)
	if want := []shape{{54, 1422}}; !slices.Equal(rec.shapes, want) {
		t.Errorf("messages %v, want %v", rec.shapes, want)
	}
}

func TestInterleavedDestinationsBecomeOneMessageEach(t *testing.T) {
	t.Parallel()
	from, to := withGSO(t, loopback4), []*Socket{open(t, loopback4, Options{}), open(t, loopback4, Options{})}
	b := NewBatch(128)
	rec := record(b)
	var want [2][][]byte
	for i := range 20 {
		p := payload(i, 700)
		want[i%2] = append(want[i%2], p)
		b.Add(from, destination(to[i%2]), p[:8], p[8:]) // a new *Destination each time: values count
	}
	if sent, _ := b.Flush(); sent != 20 {
		t.Fatalf("sent %d", sent)
	}
	if want := []shape{{20, 700}, {20, 700}}; !slices.Equal(rec.shapes, want) || rec.calls != 1 {
		t.Errorf("messages %v in %d calls, want %v in one", rec.shapes, rec.calls, want)
	}
	for i := range to {
		got, _ := receive(t, NewReceiver(to[i]), 10)
		equal(t, got, want[i])
	}
}

func TestMessagesEndWhereTheKernelDemands(t *testing.T) {
	t.Parallel()
	from, to := withGSO(t, loopback4), open(t, loopback4, Options{})
	repeat := func(size, times int) []int { return slices.Repeat([]int{size}, times) }
	for _, c := range []struct {
		name  string
		sizes []int
		want  []shape
	}{
		{"a shorter one ends the run", []int{100, 100, 50, 100, 100}, []shape{{3, 100}, {2, 100}}},
		{"a longer one begins another", []int{100, 200, 200}, []shape{{1, 0}, {2, 200}}},
		{"an empty one stays alone", []int{100, 0, 100, 100}, []shape{{1, 0}, {0, 0}, {2, 100}}},
		{"64 segments", repeat(10, 65), []shape{{64, 10}, {1, 0}}},
		{"65507 bytes", repeat(9000, 8), []shape{{7, 9000}, {1, 0}}},
	} {
		b := NewBatch(128)
		rec := record(b)
		var want [][]byte
		for i, size := range c.sizes {
			want = append(want, payload(i, size))
			b.Add(from, destination(to), nil, want[i])
		}
		b.Flush()
		if !slices.Equal(rec.shapes, c.want) {
			t.Errorf("%s: messages %v, want %v", c.name, rec.shapes, c.want)
		}
		got, _ := receive(t, NewReceiver(to), len(want))
		equal(t, got, want)
	}
}

func TestEachSocketSendsOnce(t *testing.T) {
	t.Parallel()
	to := open(t, loopback4, Options{})
	from := []*Socket{open(t, loopback4, Options{}), open(t, loopback4, Options{}), open(t, loopback4, Options{})}
	b := NewBatch(128)
	rec := record(b)
	for i := range 60 {
		b.Add(from[i%3], destination(to), nil, payload(i, 100+i/20))
	}
	if sent, _ := b.Flush(); sent != 60 || rec.calls != 3 {
		t.Errorf("sent %d in %d calls, want 60 in 3", sent, rec.calls)
	}
	got, senders := receive(t, NewReceiver(to), 60)
	last := map[netip.AddrPort]string{}
	for i := range got {
		if number := string(got[i][:6]); number <= last[senders[i]] {
			t.Fatalf("%s after %s from %s", number, last[senders[i]], senders[i])
		} else {
			last[senders[i]] = number
		}
	}
}

// TestRandomBatchesArriveInOrder compares with the obvious: per socket and
// destination, what was added is what arrives.
func TestRandomBatchesArriveInOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(1))
	to := []*Socket{open(t, loopback4, Options{}), open(t, loopback4, Options{}), open(t, loopback4, Options{})}
	from := []*Socket{open(t, loopback4, Options{}), open(t, loopback4, Options{DisableGSO: true})}
	var receivers [3]*Receiver
	for d := range to {
		receivers[d] = NewReceiver(to[d])
	}
	b := NewBatch(40) // smaller than what is added: it flushes by itself
	type path struct {
		from netip.AddrPort
		to   int
	}
	for range 30 {
		want := map[path][][]byte{}
		var perTarget [3]int
		added := random.Intn(200)
		for i := range added {
			s, d := from[random.Intn(2)], random.Intn(3)
			p := payload(i, []int{1400, 1400, 1400, 60, 900}[random.Intn(5)])
			head := random.Intn(30)
			b.Add(s, destination(to[d]), p[:head], p[head:])
			key := path{s.LocalAddr(), d}
			want[key] = append(want[key], p)
			perTarget[d]++
		}
		if sent, dropped := b.Flush(); sent != added || dropped != 0 {
			t.Fatalf("sent %d of %d, dropped %d", sent, added, dropped)
		}
		got := map[path][][]byte{}
		for d := range to {
			datagrams, senders := receive(t, receivers[d], perTarget[d])
			for i := range datagrams {
				key := path{senders[i], d}
				got[key] = append(got[key], datagrams[i])
			}
		}
		for key := range want {
			equal(t, got[key], want[key])
		}
	}
}

// TestSegmentsRefusedByTheKernelAreSentSingly uses a socket without UDP checksums,
// for which Linux answers EINVAL to UDP_SEGMENT.
func TestSegmentsRefusedByTheKernelAreSentSingly(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), withGSO(t, loopback4)
	if err := unix.SetsockoptInt(from.fd.number, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
		t.Fatal(err)
	}
	b := NewBatch(64)
	rec := record(b)
	var want [][]byte
	for i := range 21 {
		p := payload(i, 500-i/20)
		want = append(want, p)
		b.Add(from, destination(to), p[:i%3], p[i%3:])
	}
	if sent, dropped := b.Flush(); sent != 21 || dropped != 0 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
	if rec.calls != 2 {
		t.Errorf("%d calls, want one refused and one of single datagrams", rec.calls)
	}
	got, _ := receive(t, NewReceiver(to), 21)
	equal(t, got, want)
	if !from.Features().GSO {
		t.Error("one refusal for a reason that may pass turned GSO off")
	}
}

func TestADeviceWithoutChecksumsTurnsSegmentsOff(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), withGSO(t, loopback4)
	b := NewBatch(64)
	rec := record(b)
	rec.answer = func(_ int, messages []message) (int, unix.Errno, bool) {
		return 0, unix.EIO, shapeOf(&messages[0]).segment != 0
	}
	want := [][]byte{payload(0, 300), payload(1, 300), payload(2, 300)}
	for range 2 {
		for _, p := range want {
			b.Add(from, destination(to), nil, p)
		}
		if sent, dropped := b.Flush(); sent != 3 || dropped != 0 {
			t.Errorf("sent %d, dropped %d", sent, dropped)
		}
		got, _ := receive(t, NewReceiver(to), 3)
		equal(t, got, want)
	}
	if from.Features().GSO || rec.calls != 3 {
		t.Errorf("GSO still on (%v), or tried again (%d calls)", from.Features().GSO, rec.calls)
	}
}

func TestAnEarlierDatagramsErrorLosesNothing(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	b := NewBatch(4)
	rec := record(b)
	rec.answer = func(call int, _ []message) (int, unix.Errno, bool) {
		return 0, unix.ECONNREFUSED, call == 1
	}
	b.Add(from, destination(to), nil, []byte("kept"))
	if sent, dropped := b.Flush(); sent != 1 || dropped != 0 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
	got, _ := receive(t, NewReceiver(to), 1)
	equal(t, got, [][]byte{[]byte("kept")})
}

func TestAnUnreachableDestinationDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	b := NewBatch(8)
	rec := record(b)
	nowhere := NewDestination(netip.MustParseAddrPort("203.0.113.1:9"))
	rec.answer = func(_ int, messages []message) (int, unix.Errno, bool) {
		return 0, unix.ENETUNREACH, *messages[0].header.Name == nowhere.name[0] &&
			bytes.Equal(unsafe.Slice(messages[0].header.Name, 8), nowhere.name[:8])
	}
	for i := range 3 {
		b.Add(from, &nowhere, nil, payload(i, 100))
		b.Add(from, destination(to), nil, payload(i, 100))
	}
	six := NewDestination(netip.MustParseAddrPort("[2001:db8::1]:9"))
	b.Add(from, &six, nil, []byte("an IPv4 socket cannot send this"))
	b.Add(from, new(Destination), nil, []byte("nor this"))
	if sent, dropped := b.Flush(); sent != 3 || dropped != 5 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
	got, _ := receive(t, NewReceiver(to), 3)
	equal(t, got, [][]byte{payload(0, 100), payload(1, 100), payload(2, 100)})
	if sent, dropped := b.Flush(); sent != 0 || dropped != 0 {
		t.Errorf("an empty batch: sent %d, dropped %d", sent, dropped)
	}
}

func TestAFullSendQueueIsWaitedForButNotForever(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{DisableGSO: true})
	b := NewBatch(8)
	rec := record(b)
	rec.answer = func(call int, _ []message) (int, unix.Errno, bool) {
		b.patience = maxWait // however slow the machine is
		return 0, unix.EAGAIN, call <= 2
	}
	b.Add(from, destination(to), nil, []byte("first"))
	b.Add(from, destination(to), nil, []byte("second"))
	if sent, dropped := b.Flush(); sent != 2 || dropped != 0 {
		t.Errorf("room after two attempts: sent %d, dropped %d", sent, dropped)
	}

	rec.answer = func(int, []message) (int, unix.Errno, bool) {
		b.patience -= maxWait / 4 // as if the queue had been full for so long
		return 0, unix.EAGAIN, true
	}
	b.Add(from, destination(to), nil, []byte("first"))
	b.Add(from, destination(to), nil, []byte("second"))
	if sent, dropped := b.Flush(); sent != 0 || dropped != 2 {
		t.Errorf("no room at all: sent %d, dropped %d", sent, dropped)
	}
}

func TestABatchKeepsNoMemoryAlive(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	b := NewBatch(8)
	b.Add(from, destination(to), []byte("head"), []byte("body"))
	b.Add(from, destination(to), []byte("head"), []byte("body"))
	b.Flush()
	if d := b.datagrams[:1][0]; d.head != nil || d.body != nil {
		t.Error("a datagram is remembered")
	}
	if b.vectors[:1][0].Base != nil || b.messages[0].header.Name != nil || b.groups[:1][0].socket != nil {
		t.Error("a message is remembered")
	}
}

func TestSendingDoesNotAllocate(t *testing.T) {
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	other := open(t, loopback4, Options{DisableGSO: true})
	b, d, p := NewBatch(128), destination(to), payload(0, 1400)
	allocations := testing.AllocsPerRun(50, func() {
		for i := range 130 {
			b.Add(from, d, p[:22], p[22:])
			if i%4 == 0 {
				b.Add(other, d, nil, p)
			}
		}
		b.Flush()
	})
	if allocations != 0 {
		t.Errorf("%v allocations per batch", allocations)
	}
}

func TestDestinationsKeepTheirAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, out string }{
		{"192.0.2.1:51840", "192.0.2.1:51840"},
		{"[2001:db8::1]:6091", "[2001:db8::1]:6091"},
		{"[::ffff:192.0.2.1]:1", "192.0.2.1:1"},
	} {
		d := NewDestination(netip.MustParseAddrPort(c.in))
		if got := addrPort(&d.name); got.String() != c.out || d.Is6() != got.Addr().Is6() {
			t.Errorf("%s became %s (IPv6 %v)", c.in, got, d.Is6())
		}
	}
}

// A socket whose send queue is full delays neither the datagrams of others nor, when it was
// waited for in vain, the next batch.
func TestAFullSendQueueDelaysNoOtherSocket(t *testing.T) {
	t.Parallel()
	to := open(t, loopback4, Options{})
	full, free := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	b := NewBatch(8)
	var order []int
	b.send = func(fd int, messages []message) (int, unix.Errno) {
		order = append(order, fd)
		if fd == full.fd.number {
			return 0, unix.EAGAIN
		}
		return sendmmsg(fd, messages)
	}
	fill := func() {
		for i := range 3 {
			b.Add(full, destination(to), nil, payload(i, 100))
			b.Add(free, destination(to), nil, payload(i, 100))
		}
	}
	later := time.Now().Add(time.Hour)
	full.fullUntil.Store(&later) // as if another batch had just waited for it
	fill()
	if sent, dropped := b.Flush(); sent != 3 || dropped != 3 || b.patience != maxWait {
		t.Errorf("sent %d, dropped %d, %v left to wait", sent, dropped, b.patience)
	}
	want := []int{full.fd.number, free.fd.number, full.fd.number}
	if !slices.Equal(order, want) {
		t.Errorf("sent through %v, want %v", order, want)
	}
	b.NeverWait()
	full.fullUntil.Store(new(time.Time))
	fill()
	if sent, dropped := b.Flush(); sent != 3 || dropped != 3 {
		t.Errorf("sent %d, dropped %d", sent, dropped)
	}
	got, _ := receive(t, NewReceiver(to), 6)
	equal(t, got, [][]byte{payload(0, 100), payload(1, 100), payload(2, 100), payload(0, 100), payload(1, 100), payload(2, 100)})
}

// After waiting in vain, nothing waits for the queue for some time.
func TestAQueueThatStaysFullIsNotWaitedForAgainAtOnce(t *testing.T) {
	t.Parallel()
	var pipe [2]int // full, as a send queue cannot be made to be
	if err := unix.Pipe2(pipe[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	for some := make([]byte, 4096); ; {
		if _, err := unix.Write(pipe[1], some); err != nil {
			break
		}
	}
	s, b := new(Socket), NewBatch(1)
	s.fd.own(pipe[1])
	defer unix.Close(pipe[1])
	s.fullUntil.Store(new(time.Time))
	b.patience = 1 // nanosecond
	if b.awaitWritable(s) {
		t.Error("a full queue is writable")
	}
	if left := b.patience; left > 0 {
		t.Errorf("%v left to wait", left)
	}
	if s.fullUntil.Load().IsZero() {
		t.Error("not remembered")
	}
	b.patience = maxWait
	later := time.Now().Add(time.Hour)
	s.fullUntil.Store(&later)
	if b.awaitWritable(s) || b.patience != maxWait {
		t.Error("waited again")
	}
}
