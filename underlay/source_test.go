package underlay

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"

	"strait.dev/strait/internal/raceflag"
)

// called is a machine with two addresses, and a socket of another that calls it.
type called struct {
	link      *opened
	caller    *Socket
	receiver  *Receiver
	addresses [2]netip.Addr
}

// call sends the link a datagram at an address, and returns where the link takes it from.
func (c *called) call(t *testing.T, at netip.Addr) conn.Endpoint {
	t.Helper()
	to := NewDestination(netip.AddrPortFrom(at, c.link.port))
	b := NewBatch(1)
	b.Add(c.caller, &to, nil, []byte("call"))
	b.Flush()
	equal(t, c.link.next(t, 1), [][]byte{[]byte("call")})
	return c.link.senders[0]
}

// answers sends what the link has to say, and fails unless all of it comes from an address.
func (c *called) answers(t *testing.T, to conn.Endpoint, from netip.Addr, bufs ...[]byte) {
	t.Helper()
	c.link.send(t, to, bufs...)
	got, senders := receive(t, c.receiver, len(bufs))
	equal(t, got, bufs)
	for i, s := range senders {
		if want := netip.AddrPortFrom(from, c.link.port); s != want {
			t.Fatalf("answer %d of %d comes from %s, want %s", i, len(bufs), s, want)
		}
	}
	nothingWaits(t, c.receiver)
}

// onLoopback calls over 127.0.0.0/8, all of which is this machine's.
func onLoopback(t *testing.T, o Options) *called {
	c := &called{link: openLink(t, NewMux(o).Link(anyKey, otherKey, nil), 0), caller: open(t, loopback4, Options{}),
		addresses: [2]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}}
	c.receiver = NewReceiver(c.caller)
	return c
}

// train is more than one message of equal datagrams, and a shorter one.
func train() (bufs [][]byte) {
	for i := range 70 {
		bufs = append(bufs, payload(i, 1200))
	}
	return append(bufs, payload(70, 30))
}

// Alone, and in trains, which the kernel segments or does not.
func TestNetns17_AnswersLeaveFromTheAddressCalled(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{}, {DisableGSO: true}, {DisableGRO: true}} {
		c := onLoopback(t, o)
		for _, a := range []int{0, 1, 0, 1, 1} {
			at := c.addresses[a]
			from := c.call(t, at)
			if from.SrcIP() != at || from.SrcToString() != at.String() {
				t.Errorf("called at %s, understood %q", at, from.SrcToString())
			}
			c.answers(t, from, at, []byte("answer"))
			c.answers(t, from, at, train()...)
		}
	}
}

// A link that initiates follows the routes of its kernel (scenario 19).
func TestNetns19_ALinkThatInitiatesLetsTheKernelChooseItsAddress(t *testing.T) {
	t.Parallel()
	c := onLoopback(t, Options{})
	from := c.call(t, c.addresses[1])
	if _, err := c.link.ParseEndpoint(from.DstToString()); err != nil {
		t.Fatal(err)
	}
	c.answers(t, from, c.addresses[0], []byte("from the address the kernel prefers"))
	if _, err := c.link.ParseEndpoint("192.0.2.1:51820"); err != nil {
		t.Fatal(err)
	}
	c.answers(t, from, c.addresses[1], []byte("it uses another address now"))
}

func TestAClearedSourceIsLetGo(t *testing.T) {
	t.Parallel()
	c := onLoopback(t, Options{})
	from := c.call(t, c.addresses[1])
	from.ClearSrc() // WireGuard does when the peer is silent
	c.answers(t, from, c.addresses[0], []byte("from the address the kernel prefers"))
	again := c.call(t, c.addresses[1])
	if again == from {
		t.Fatal("an address that was called after its source was cleared has none")
	}
	c.answers(t, again, c.addresses[1], []byte("from the address called"))
}

// A kernel that does not tell is no error: it chooses.
func TestWithoutTheKernelsHelpTheKernelChooses(t *testing.T) {
	t.Parallel()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0) // knows no such option
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	for _, six := range []bool{false, true} {
		if set(pair[0], six, unix.IP_PKTINFO, unix.IPV6_RECVPKTINFO, 1) {
			t.Errorf("IPv6 %v: refused, and yet granted", six)
		}
	}
	c := onLoopback(t, Options{})
	if err := unix.SetsockoptInt(c.link.Bind.(*linkBind).mux.port.sockets()[0].fd.number, unix.IPPROTO_IP, unix.IP_PKTINFO, 0); err != nil {
		t.Fatal(err)
	}
	from := c.call(t, c.addresses[1])
	if from.SrcIP().IsValid() {
		t.Errorf("source %s from nowhere", from.SrcIP())
	}
	c.answers(t, from, c.addresses[0], []byte("answer"))
}

func TestASocketWithoutTheOptionGetsNoLocalAddress(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	b, r := NewBatch(1), NewReceiver(to)
	b.Add(from, destination(to), nil, []byte("x"))
	b.Flush()
	receive(t, r, 1)
	if to.Features().LocalAddress || r.Local().IsValid() {
		t.Errorf("told %s", r.Local())
	}
}

// All that a received message can be told of at once, and what an IPv6 socket is told.
func TestControlMessagesAreDistinguished(t *testing.T) {
	t.Parallel()
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		to, from := withECN(t, addr, Options{LocalAddress: true}), withGSO(t, addr)
		local := to.LocalAddr().Addr()
		there := NewDestination(to.LocalAddr())
		sourced := there.from(local)
		b, r := NewBatch(64), NewReceiver(to)
		for i := range 5 {
			b.AddMarked(from, &sourced, ce, nil, payload(i, 300))
		}
		if sent, dropped := b.Flush(); sent != 5 || dropped != 0 {
			t.Fatalf("%v: sent %d, dropped %d", addr, sent, dropped)
		}
		for total := 0; total < 1500; {
			if _, err := r.Fill(); err != nil {
				t.Fatal(err)
			}
			for message, _, _, ok := r.NextUnless(whole); ok; message, _, _, ok = r.NextUnless(whole) {
				total += len(message)
				if r.segment != 300 || r.ECN() != ce || r.Local() != local {
					t.Errorf("%v: segments of %d with %02b for %s", addr, r.segment, r.ECN(), r.Local())
				}
			}
		}
	}
}

// FuzzControlMessages reads whatever stands in the room that the kernel writes to.
func FuzzControlMessages(f *testing.F) {
	f.Add([]byte{}, 0)
	f.Add(bytes.Repeat([]byte{0xff}, controlsSize), controlsSize)
	var c controls
	var m message
	m.cut(&c, 1200)
	d := NewDestination(netip.MustParseAddrPort("[2001:db8::1]:1"))
	d = d.from(netip.MustParseAddr("2001:db8::2"))
	m.mark(&c, &d, ce)
	m.leave(&c, &d)
	space := (*[unsafe.Sizeof(c)]byte)(unsafe.Pointer(&c))
	f.Add(bytes.Clone(space[:]), int(m.header.Controllen))
	binary.NativeEndian.PutUint64(space[:], 1<<63) // a length that is none
	f.Add(bytes.Clone(space[:]), controlsSize)
	f.Fuzz(func(t *testing.T, b []byte, received int) {
		var c controls
		copy((*[unsafe.Sizeof(c)]byte)(unsafe.Pointer(&c))[:], b)
		if told := c.read(received); told.ecn > ecnMask {
			t.Errorf("ECN %d", told.ecn)
		}
	})
}

func TestAnsweringFromTheAddressCalledDoesNotAllocate(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates by itself; run without -race")
	}
	c := onLoopback(t, Options{})
	other := open(t, loopback4, Options{})
	back := NewReceiver(other)
	to := [2]Destination{}
	for i, a := range c.addresses {
		to[i] = NewDestination(netip.AddrPortFrom(a, c.link.port))
	}
	b, bufs := NewBatch(8), train()
	calls := []*Socket{c.caller, other}
	receivers := []*Receiver{c.receiver, back}
	i := 0
	if n := testing.AllocsPerRun(100, func() {
		i++
		b.Add(calls[i%2], &to[i/2%2], nil, bufs[0])
		b.Flush()
		n, err := c.link.receive(c.link.packets, c.link.sizes, c.link.senders)
		if err != nil || n != 1 {
			t.Fatal(n, err)
		}
		if err := c.link.Send(bufs, c.link.senders[0]); err != nil {
			t.Fatal(err)
		}
		r := receivers[i%2]
		if _, err := r.Fill(); err != nil {
			t.Fatal(err)
		}
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
		}
	}); n != 0 {
		t.Errorf("%v allocations per call and answer", n)
	}
}
