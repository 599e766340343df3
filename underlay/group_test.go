package underlay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/wait"
)

// bucketIn is the bucket of a sender as bucketOf defines it.
func bucketIn(from netip.AddrPort) int {
	var hash uint32
	for b := from.Addr().AsSlice(); len(b) > 0; b = b[4:] {
		hash ^= binary.BigEndian.Uint32(b)
	}
	return int((hash ^ uint32(from.Port())) * hashFactor >> 24)
}

// classIn is the class of a sender as BySource defines it.
func classIn(from netip.AddrPort) int {
	return int((bucketHash(from.Addr()) * hashFactor) >> 29)
}

func bucketHash(from netip.Addr) (hash uint32) {
	for b := from.AsSlice(); len(b) > 0; b = b[4:] {
		hash ^= binary.BigEndian.Uint32(b)
	}
	return hash
}

// run interprets a program for a datagram with these headers.
func run(t testing.TB, code []unix.SockFilter, ip []byte) uint32 {
	t.Helper()
	var a, x uint32
	for at := 0; ; at++ {
		if at >= len(code) {
			t.Fatal("the program ends without a result")
		}
		switch c := code[at]; c.Code {
		case bpfLoad:
			a = binary.BigEndian.Uint32(ip[c.K-netOffset:])
		case bpfLoad16:
			a = uint32(binary.BigEndian.Uint16(ip[c.K-netOffset:]))
		case bpfLoad16At:
			a = uint32(binary.BigEndian.Uint16(ip[c.K+x-netOffset:]))
		case bpfHeader:
			x = uint32(ip[c.K-netOffset]&0xf) * 4
		case bpfLength:
			a = 0 // of the payload
		case bpfSave:
			x = a
		case bpfXor:
			a ^= x
		case bpfMultiply:
			a *= c.K
		case bpfShift:
			a >>= c.K
		case bpfAtLeast:
			if a >= c.K {
				at += int(c.Jt)
			} else {
				at += int(c.Jf)
			}
		case bpfJump:
			at += int(c.K)
		case bpfReturn:
			return c.K
		default:
			t.Fatalf("instruction %d: code %#x", at, c.Code)
		}
	}
}

// headersOf are the IP header and the source port of a datagram; options are the words of IPv4 options.
func headersOf(from netip.AddrPort, options int) []byte {
	b := make([]byte, header6)
	if from.Addr().Is4() {
		b = make([]byte, 20+4*options)
		b[0] = 0x45 + byte(options)
		copy(b[sourceOffset:], from.Addr().AsSlice())
	} else {
		b[0] = 0x60
		copy(b[source6:], from.Addr().AsSlice())
	}
	return binary.BigEndian.AppendUint16(b, from.Port())
}

// paper is a group whose sockets are not open: lanes, of which some have classes in use.
func paper(local netip.AddrPort, lanes int, sorted func(lane int) bool) (g *Group, all []*Socket) {
	g = &Group{classes: BySource}
	for lane := range lanes {
		s := &Socket{local: local, classes: &classes{group: g}}
		all = append(all, s)
		g.order = append(g.order, s)
		if s.classes.sorted = sorted(lane); s.classes.sorted {
			others := make([]*Socket, BySource.classes-1)
			for i := range others {
				others[i] = &Socket{local: local}
			}
			s.classes.queues.Store(&queues{sockets: append([]*Socket{s}, others...)})
			g.order = append(g.order, others...)
		}
	}
	return g, all
}

// FuzzTheProgramSelectsWhatTheTableSays compiles random tables, with any order of sockets.
func FuzzTheProgramSelectsWhatTheTableSays(f *testing.F) {
	f.Add(uint64(1), uint8(1), uint8(0), false)
	f.Add(uint64(2), uint8(3), uint8(2), false)
	f.Add(uint64(3), uint8(16), uint8(255), true)
	f.Add(uint64(4), uint8(40), uint8(85), true)
	f.Fuzz(func(t *testing.T, seed uint64, lanes, sorted uint8, six bool) {
		r := rand.New(rand.NewPCG(seed, 0))
		local := loopback4
		if six {
			local = loopback6
		}
		g, all := paper(local, int(max(lanes, 1)), func(lane int) bool { return lane < 8 && sorted>>lane&1 == 1 })
		stretch := 1 + r.IntN(Buckets)
		for at := 0; at < Buckets; {
			s := all[r.IntN(len(all))]
			for range 1 + r.IntN(stretch) {
				if at < Buckets {
					g.table[at] = s
					at++
				}
			}
		}
		r.Shuffle(len(g.order), func(i, j int) { g.order[i], g.order[j] = g.order[j], g.order[i] })
		code := g.compile()
		const most = 2500 // net.core.optmem_max of 20 KiB
		if len(code) > most {
			t.Errorf("%d instructions, want %d at most", len(code), most)
		}
		for range 200 {
			address := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, r.Uint32())))
			if six {
				var b [16]byte
				binary.BigEndian.PutUint64(b[:], r.Uint64())
				binary.BigEndian.PutUint64(b[8:], r.Uint64())
				address = netip.AddrFrom16(b)
			}
			from := netip.AddrPortFrom(address, uint16(r.Uint32()))
			if from.Addr().Is4In6() {
				continue
			}
			want := g.table[bucketIn(from)]
			if want.classes.sorted {
				want = want.class(classIn(from))
			}
			if got := g.order[run(t, code, headersOf(from, r.IntN(11)))]; got != want {
				t.Fatalf("%v: socket %d, want %d", from, slices.Index(g.order, got), slices.Index(g.order, want))
			}
		}
	})
}

func TestAProgramIsAsShortAsItsTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lanes  int
		sorted bool
		of     func(bucket int) int
		most   int
	}{
		"one lane":                         {2, false, func(int) int { return 1 }, 2},
		"one lane with classes":            {2, true, func(int) int { return 1 }, 60},
		"halves":                           {2, false, func(b int) int { return b / 128 }, 12},
		"three lanes in stretches":         {3, false, func(b int) int { return b / 86 }, 16},
		"16 lanes in stretches":            {16, false, func(b int) int { return b / 16 }, 60},
		"no two neighbours of one lane":    {16, false, func(b int) int { return b % 16 }, 560},
		"the same, all of them overloaded": {16, true, func(b int) int { return b % 16 }, 1400},
	} {
		g, all := paper(loopback4, c.lanes, func(int) bool { return c.sorted })
		for bucket := range g.table {
			g.table[bucket] = all[c.of(bucket)]
		}
		if n := len(g.compile()); n > c.most {
			t.Errorf("%s: %d instructions, want %d at most", name, n, c.most)
		}
	}
}

// grouped is a group of so many sockets, with a receiver for each, and the stretches of the table.
func grouped(t *testing.T, addr netip.AddrPort, count int) (g *Group, lanes []*Socket, receivers []*Receiver) {
	t.Helper()
	first := open(t, addr, Options{})
	g = first.Classify(BySource)
	lanes = []*Socket{first}
	for len(lanes) < count {
		s, err := g.Open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		lanes = append(lanes, s)
	}
	for _, s := range lanes {
		receivers = append(receivers, NewReceiver(s))
	}
	return g, lanes, receivers
}

// direct distributes the buckets evenly over lanes.
func direct(t *testing.T, g *Group, lanes ...*Socket) {
	t.Helper()
	var table [Buckets]*Socket
	for bucket := range table {
		table[bucket] = lanes[bucket*len(lanes)/Buckets]
	}
	if err := g.Direct(&table); err != nil {
		t.Fatal(err)
	}
}

// stop makes the kernel deliver nothing more to a lane that its group excludes.
func stop(t *testing.T, lane *Socket) {
	t.Helper()
	if err := StopReceiving(lane); err != nil {
		t.Fatal(err)
	}
}

// arrivesAt sends a datagram and returns the lane that receives it.
func arrivesAt(t *testing.T, sender *Socket, to *Destination, receivers []*Receiver) (lane int) {
	t.Helper()
	b := NewBatch(1)
	b.Add(sender, to, nil, []byte("hello"))
	b.Flush()
	wait.Until(t, "a lane has received the datagram", func() bool {
		for i, r := range receivers {
			if n, _ := r.Fill(); n == 1 {
				r.Next()
				lane = i
				return true
			}
		}
		return false
	})
	return lane
}

// The kernel selects what the table says, whatever was opened and closed before, and whether a lane is
// overloaded or not.
func TestTheKernelSelectsTheLaneOfASender(t *testing.T) {
	t.Parallel()
	for bound, addr := range map[netip.AddrPort]netip.AddrPort{
		loopback4: loopback4, loopback6: loopback6,
		netip.MustParseAddrPort("0.0.0.0:0"): loopback4, netip.MustParseAddrPort("[::]:0"): loopback6,
	} {
		g, lanes, receivers := grouped(t, bound, 3)
		to := NewDestination(netip.AddrPortFrom(addr.Addr(), lanes[0].LocalAddr().Port()))
		var senders []*Socket
		for range 24 {
			senders = append(senders, open(t, addr, Options{}))
		}
		check := func(state string) {
			t.Helper()
			used := make(map[int]bool)
			for _, sender := range senders {
				want := slices.Index(lanes, g.table[bucketIn(sender.LocalAddr())])
				if got := arrivesAt(t, sender, &to, receivers); got != want {
					t.Errorf("%s: a sender reaches lane %d, want %d", state, got, want)
				}
				used[want] = true
			}
			if len(used) < 2 {
				t.Errorf("%s: all senders reach the lanes %v", state, used)
			}
		}
		direct(t, g, lanes...)
		check("three lanes")
		direct(t, g, lanes[0], lanes[2])
		check("without one")
		direct(t, g, lanes...)
		spread(t, lanes[1])
		check("with one overloaded")
		spread(t, lanes[0])
		check("with two overloaded")
		direct(t, g, lanes[1], lanes[2])
		stop(t, lanes[0]) // the sockets bound last take its numbers, now or when it is closed
		check("with one that has stopped")
		lanes[0].Close()
		check("with one closed")
		fourth, err := g.Open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fourth.Close() })
		lanes[0], receivers[0] = fourth, NewReceiver(fourth)
		direct(t, g, lanes...)
		check("with a new one")
	}
}

// While lanes come, go and overflow, no datagram is lost, and none reaches a lane that is to be closed.
func TestNoDatagramIsLostWhileLanesChange(t *testing.T) {
	t.Parallel()
	first := open(t, loopback4, Options{})
	g := first.Classify(BySource)
	receiver := NewReceiver(first)
	senders := make([]*Socket, 8)
	for i := range senders {
		senders[i] = open(t, loopback4, Options{})
	}
	to, b, sent := destination(first), NewBatch(1), 0
	received := make(map[string]int)
	send := func() {
		for _, s := range senders {
			b.Add(s, to, nil, fmt.Appendf(nil, "%d", sent))
			b.Flush()
			sent++
		}
	}
	drain := func(lanes ...*Socket) {
		for _, s := range lanes {
			for receiver.Use(s); ; {
				n, err := receiver.Fill()
				if n == 0 || err != nil {
					break
				}
				for d, _, ok := receiver.Next(); ok; d, _, ok = receiver.Next() {
					received[string(d)]++
				}
			}
		}
	}
	for round := range 20 {
		send()
		second, err := g.Open()
		if err != nil {
			t.Fatal(err)
		}
		send()
		direct(t, g, first, second)
		send()
		if round%2 == 1 {
			spread(t, second)
		}
		send()
		direct(t, g, first)
		send()
		drain(first, second)
		wait.Until(t, "nothing waits at the second lane", second.Empty)
		stop(t, second)
		send()
		second.Close()
		send()
		drain(first)
	}
	wait.Until(t, "all have arrived", func() bool { drain(first); return len(received) == sent })
	if other, err := Listen(first.LocalAddr(), Options{ReusePort: true}); err == nil {
		other.Close()
		t.Error("the port of one lane is shared")
	}
}

// A socket that has stopped receiving gets nothing even if the kernel knows no other for a datagram: so it
// is for an instant in which the kernel closes a socket of a group.
func TestASocketThatHasStoppedReceivesNothing(t *testing.T) {
	t.Parallel()
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		g, lanes, receivers := grouped(t, addr, 2)
		waiting, b := open(t, addr, Options{}), NewBatch(1)
		direct(t, g, lanes[1])
		b.Add(waiting, destination(lanes[1]), nil, []byte("before"))
		b.Flush()
		direct(t, g, lanes[0])
		stop(t, lanes[1])
		if lanes[1].Empty() {
			t.Error("what it has queued is lost")
		}
		receivers[1].Fill()
		lanes[0].Close()
		sender, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(lanes[1].LocalAddr()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sender.Close() })
		if _, err := sender.Write([]byte("after")); err != nil {
			t.Fatal(err)
		}
		if _, err := sender.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNREFUSED) || !lanes[1].Empty() {
			t.Errorf("the sender of a datagram sees %v, want %v", err, unix.ECONNREFUSED)
		}
	}
}

// Lanes come and go while a sender does not pause.
func TestNoDatagramIsLostWhileLanesChangeUnderLoad(t *testing.T) {
	t.Parallel()
	first := open(t, loopback4, Options{})
	g := first.Classify(BySource)
	const window = 100 // unread datagrams, so that no queue overflows
	var sent, received atomic.Int64
	var sending sync.WaitGroup
	ended := make(chan struct{})
	sender := open(t, loopback4, Options{})
	sending.Go(func() {
		b := NewBatch(1)
		for {
			select {
			case <-ended:
				return
			default:
			}
			if sent.Load()-received.Load() >= window {
				runtime.Gosched()
				continue
			}
			b.Add(sender, destination(first), nil, []byte("hello"))
			n, _ := b.Flush()
			sent.Add(int64(n))
		}
	})
	r := NewReceiver(first)
	drain := func(lanes ...*Socket) {
		for _, s := range lanes {
			r.Use(s)
			n, _ := r.Fill()
			for range n {
				for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
					received.Add(1)
				}
			}
		}
	}
	for range 100 {
		second, err := g.Open()
		if err != nil {
			t.Fatal(err)
		}
		direct(t, g, second)
		for before := received.Load(); received.Load() < before+window; {
			drain(first, second)
		}
		direct(t, g, first)
		stop(t, second)
		for !second.Empty() {
			drain(first, second)
		}
		second.Close()
		drain(first)
	}
	close(ended)
	sending.Wait()
	wait.Until(t, "all have arrived", func() bool { drain(first); return received.Load() == sent.Load() })
}
