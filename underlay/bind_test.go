package underlay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/test/ports"
)

// opened is an open link with buffers to receive into.
type opened struct {
	conn.Bind
	receive conn.ReceiveFunc
	port    uint16
	packets [][]byte
	sizes   []int
	senders []conn.Endpoint
}

// anyKey is the public key of links whose keys do not matter.
var anyKey, otherKey = device.NoisePublicKey{1}, device.NoisePublicKey{2}

func openLink(tb testing.TB, b conn.Bind, number uint16) *opened {
	tb.Helper()
	fns, actual, err := b.Open(number)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { b.Close() })
	o := &opened{Bind: b, receive: fns[0], port: actual,
		sizes: make([]int, b.BatchSize()), senders: make([]conn.Endpoint, b.BatchSize())}
	for range b.BatchSize() {
		o.packets = append(o.packets, make([]byte, 1<<16))
	}
	return o
}

// next waits for so many datagrams.
func (o *opened) next(tb testing.TB, want int) (datagrams [][]byte) {
	tb.Helper()
	for len(datagrams) < want {
		n, err := o.receive(o.packets, o.sizes, o.senders)
		if err != nil {
			tb.Fatal(err)
		}
		for i := range n {
			datagrams = append(datagrams, bytes.Clone(o.packets[i][:o.sizes[i]]))
		}
	}
	return datagrams
}

// endpoint is where others reach the link over loopback.
func (o *opened) endpoint(tb testing.TB, host string) conn.Endpoint {
	tb.Helper()
	e, err := o.ParseEndpoint(netip.AddrPortFrom(netip.MustParseAddr(host), o.port).String())
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func (o *opened) send(tb testing.TB, to conn.Endpoint, bufs ...[]byte) {
	tb.Helper()
	if err := o.Send(bufs, to); err != nil {
		tb.Fatal(err)
	}
}

// The messages that the Mux reads, otherwise empty.

func initiation(sender uint32) []byte { return initiationFor(anyKey, sender) }

// initiationFor has the first MAC that shows for which key it is.
func initiationFor(key device.NoisePublicKey, sender uint32) []byte {
	m := wireguard(messageInitiation, initiationSize, 4, sender)
	var caller device.CookieGenerator
	caller.Init(key)
	caller.AddMacs(m)
	return m
}

func transport(receiver uint32, size int) []byte {
	return wireguard(messageTransport, size, 4, receiver)
}

func response(sender, receiver uint32) []byte {
	m := wireguard(messageResponse, responseSize, 4, sender)
	binary.LittleEndian.PutUint32(m[8:], receiver)
	return m
}

func wireguard(kind uint32, size, at int, index uint32) []byte {
	m := make([]byte, size)
	binary.LittleEndian.PutUint32(m, kind)
	binary.LittleEndian.PutUint32(m[at:], index)
	return m
}

func TestALinkSendsAndReceivesBothFamilies(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "::1"} {
		if host == "::1" {
			open(t, loopback6, Options{}) // skips without IPv6
		}
		a, b := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
		var want [][]byte
		for i := range 128 {
			want = append(want, payload(i, 1400-10*(i/100)))
		}
		a.send(t, b.endpoint(t, host), want...)
		equal(t, b.next(t, 128), want)
		from := b.senders[0]
		if got := from.DstToString(); got != a.endpoint(t, host).DstToString() {
			t.Errorf("from %s, want %s", got, a.endpoint(t, host).DstToString())
		}
		b.send(t, from, []byte("and back"))
		equal(t, a.next(t, 1), [][]byte{[]byte("and back")})
	}
}

func TestEndpointsOfOneAddressAreOneValue(t *testing.T) {
	t.Parallel()
	a, b := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
	var first conn.Endpoint
	for range 3 {
		a.send(t, b.endpoint(t, "127.0.0.1"), []byte("x"))
		b.next(t, 1)
		if first == nil {
			first = b.senders[0]
		}
		if b.senders[0] != first {
			t.Error("a new endpoint for a known address")
		}
	}
	var e endpoints
	for i := range 3 * maxEndpoints {
		e.of(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1), netip.Addr{})
	}
	if len(e.known) > maxEndpoints {
		t.Errorf("%d endpoints remembered", len(e.known))
	}
}

func TestEndpointsDescribeThePeer(t *testing.T) {
	t.Parallel()
	b := NewMux(Options{}).Link(anyKey, otherKey, nil)
	e, err := b.ParseEndpoint("[::ffff:192.0.2.1]:51840")
	if err != nil {
		t.Fatal(err)
	}
	std, err := conn.NewStdNetBind().ParseEndpoint("192.0.2.1:51840")
	if err != nil {
		t.Fatal(err)
	}
	if e.DstToString() != std.DstToString() || e.DstIP() != std.DstIP() || !bytes.Equal(e.DstToBytes(), std.DstToBytes()) {
		t.Errorf("%s %s %x differs from what WireGuard's own bind says", e.DstToString(), e.DstIP(), e.DstToBytes())
	}
	if e.SrcIP().IsValid() || e.SrcToString() != "" {
		t.Errorf("source %s %q, want none", e.SrcIP(), e.SrcToString())
	}
	for _, bad := range []string{"", "gw.example:51840", "192.0.2.1", "[fe80::1%eth0]:1"} {
		if _, err := b.ParseEndpoint(bad); err == nil || !strings.Contains(err.Error(), ": give a") {
			t.Errorf("ParseEndpoint(%q): %v", bad, err)
		}
	}
}

func TestALinkOpensAndClosesAgainAndAgain(t *testing.T) {
	t.Parallel()
	m := NewMux(Options{})
	l := m.Link(anyKey, otherKey, nil)
	port := ports.Free(t, 1)[0] // that no other socket takes while the link is closed
	for range 20 {
		fns, actual, err := l.Open(port)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := l.Open(port); !errors.Is(err, conn.ErrBindAlreadyOpen) {
			t.Errorf("Open of an open link: %v", err)
		}
		if actual != port {
			t.Errorf("port %d, want %d", actual, port)
		}
		done := make(chan error, 1)
		go func() {
			_, err := fns[0]([][]byte{make([]byte, 1<<16)}, make([]int, 1), make([]conn.Endpoint, 1))
			done <- err
		}()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, net.ErrClosed) {
			t.Errorf("receive after Close: %v", err)
		}
	}
	if err := l.Close(); err != nil {
		t.Errorf("Close of a closed link: %v", err)
	}
	e, _ := l.ParseEndpoint("127.0.0.1:9")
	if err := l.Send([][]byte{{1}}, e); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Send on a closed link: %v", err)
	}
	if err := l.SetMark(7); err != nil {
		t.Errorf("SetMark: %v", err)
	}
}

func TestSendingNothingIsNoError(t *testing.T) {
	t.Parallel()
	a := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
	if err := a.Send(nil, a.endpoint(t, "127.0.0.1")); err != nil {
		t.Error(err)
	}
}

func TestSendErrorsSayWhy(t *testing.T) {
	t.Parallel()
	a := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
	if err := a.Send([][]byte{{1}}, &conn.StdNetEndpoint{}); !errors.Is(err, conn.ErrWrongEndpointType) {
		t.Errorf("another bind's endpoint: %v", err)
	}
	to := a.endpoint(t, "127.0.0.1")
	err := a.Send([][]byte{make([]byte, 1<<16)}, to)
	if !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("a datagram of 64 KiB: %v", err)
	}
	if n := a.Bind.(*linkBind).mux.Counters().SendFailures; n != 1 {
		t.Errorf("%d send failures", n)
	}
}

func TestSendingToAFamilyTheKernelLacksSaysSo(t *testing.T) {
	t.Parallel()
	if s, err := Listen(loopback6, Options{}); err == nil {
		s.Close()
		t.Skip("this kernel has IPv6")
	}
	a := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
	if err := a.Send([][]byte{{1}}, a.endpoint(t, "::1")); !errors.Is(err, unix.EAFNOSUPPORT) {
		t.Errorf("Send: %v", err)
	}
}

func TestReceivingThroughALinkDoesNotAllocate(t *testing.T) {
	b, from := openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), open(t, loopback4, Options{})
	to := NewDestination(netip.AddrPortFrom(loopback4.Addr(), b.port))
	batch, p := NewBatch(8), payload(0, 1200)
	allocations := testing.AllocsPerRun(100, func() {
		for range 8 {
			batch.Add(from, &to, nil, p)
		}
		batch.Flush()
		for got := 0; got < 8; {
			n, err := b.receive(b.packets, b.sizes, b.senders)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations per batch", allocations)
	}
}

// Neither made-up indices nor a flood of new senders allocates or replaces what is known of the
// peers.
func TestT8_ForgedSendersAllocateNothing(t *testing.T) {
	m, _, one, _ := trio(t)
	s := one.Bind.(*linkBind).session.Load()
	local := netip.MustParseAddr("127.0.0.1")
	known := s.port.endpoints.of(netip.MustParseAddrPort("127.0.0.1:9"), local)
	senders := 0
	forged := func() netip.AddrPort {
		senders++
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(senders >> 16), byte(senders >> 8), byte(senders)}), 1)
	}
	made := transport(77, 64)
	if n := testing.AllocsPerRun(10*maxEndpoints, func() { s.port.sort(made, forged(), local, s) }); n != 0 {
		t.Errorf("%v allocations per datagram with a made-up index", n)
	}
	if c := m.Counters(); c.Unknown != uint64(senders) {
		t.Errorf("counted %+v, want %d unknown", c, senders)
	}
	var e endpoints
	now := time.Unix(1000, 0)
	clock := func() time.Time { return now }
	for range senderBurst {
		if e.limited(forged(), local, clock) == nil {
			t.Fatal("new senders are refused at once")
		}
	}
	if n := testing.AllocsPerRun(10*maxEndpoints, func() { e.limited(forged(), local, clock) }); n != 0 {
		t.Errorf("%v allocations per new sender beyond the rate", n)
	}
	now = now.Add(senderInterval)
	if e.limited(forged(), local, clock) == nil {
		t.Error("a new sender is refused after the flood")
	}
	if s.port.endpoints.of(known.addr, local) != known {
		t.Error("a known sender was forgotten")
	}
}
