package underlay

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/config"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

func TestListenReportsThePortTheKernelChose(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		addr := netip.MustParseAddrPort(addr)
		s := open(t, addr, Options{})
		if s.LocalAddr().Port() == 0 || s.LocalAddr().Addr() != addr.Addr() {
			t.Errorf("Listen(%s).LocalAddr() = %s", addr, s.LocalAddr())
		}
	}
}

func TestUnspecifiedAddressesOfBothFamiliesShareAPort(t *testing.T) {
	t.Parallel()
	port := ports.Free(t, 1)[0]
	open(t, netip.AddrPortFrom(netip.IPv6Unspecified(), port), Options{})
	open(t, netip.AddrPortFrom(netip.IPv4Unspecified(), port), Options{})
}

func TestListenErrorsKeepTheErrnoAndNameTheRemedy(t *testing.T) {
	t.Parallel()
	taken := open(t, loopback4, Options{}).LocalAddr()
	for _, c := range []struct {
		addr   netip.AddrPort
		errno  error
		remedy string
	}{
		{taken, unix.EADDRINUSE, "choose another port"},
		{netip.MustParseAddrPort("192.0.2.1:0"), unix.EADDRNOTAVAIL, "no interface has this address"},
		{netip.AddrPort{}, nil, "0.0.0.0"},
	} {
		_, err := Listen(c.addr, Options{})
		if err == nil {
			t.Errorf("Listen(%s) succeeded", c.addr)
			continue
		}
		if c.errno != nil && !errors.Is(err, c.errno) {
			t.Errorf("Listen(%s): %v does not wrap %v", c.addr, err, c.errno)
		}
		if !strings.Contains(err.Error(), c.remedy) {
			t.Errorf("Listen(%s): %v does not say %q", c.addr, err, c.remedy)
		}
	}
}

func TestReusePortSharesAPort(t *testing.T) {
	t.Parallel()
	first := open(t, loopback4, Options{ReusePort: true})
	open(t, first.LocalAddr(), Options{ReusePort: true})
}

func TestKillSwitchesRefuseWhatTheKernelOffers(t *testing.T) {
	t.Parallel()
	all := open(t, loopback4, Options{}).Features()
	none := open(t, loopback4, Options{DisableGRO: true, DisableGSO: true}).Features()
	if !all.GRO || !all.GSO {
		t.Logf("this kernel offers GRO %v, GSO %v", all.GRO, all.GSO)
	}
	if none.GRO || none.GSO {
		t.Errorf("refused, and yet GRO %v, GSO %v", none.GRO, none.GSO)
	}
}

func TestBufferSizesAreGranted(t *testing.T) {
	t.Parallel()
	f := open(t, loopback4, Options{ReceiveBuffer: 64 << 10}).Features()
	if f.ReceiveBuffer != 64<<10 || f.SendBuffer <= 0 || f.SendBuffer > config.SocketBuffer {
		t.Errorf("granted %d and %d bytes", f.ReceiveBuffer, f.SendBuffer)
	}
}

func TestKernelsThatBreakSegmentsAreKnown(t *testing.T) {
	t.Parallel()
	for release, broken := range map[string]bool{
		"6.18.44": false, "7.0.0-15-generic": true, "7.0-rc1": true, "7.1.4": true,
		"7.1.5": false, "7.2.0": false, "5.15.0-1": false, "unknown": false,
	} {
		if got := breaksGSO(release); got != broken {
			t.Errorf("breaksGSO(%q) = %v", release, got)
		}
	}
}

// receiveUntil receives datagrams until what was sent is received or counted as dropped, and returns their number.
func receiveUntil(t *testing.T, s *Socket, all func(received int) bool) (received int) {
	t.Helper()
	r := NewReceiver(s)
	wait.Until(t, "what was sent is received or counted", func() bool {
		if _, err := r.Fill(); err != nil {
			t.Fatal(err)
		}
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
			received++
		}
		return all(received)
	})
	return received
}

func TestOverflowsCountWhatTheKernelDropped(t *testing.T) {
	t.Parallel()
	to := open(t, loopback4, Options{ReceiveBuffer: 4 << 10})
	from := open(t, loopback4, Options{DisableGSO: true})
	b := NewBatch(64)
	const sent = 300
	for i := range sent {
		b.Add(from, destination(to), nil, payload(i, 500))
	}
	if n, _ := b.Flush(); n != sent {
		t.Fatalf("sent %d of %d", n, sent)
	}
	received := receiveUntil(t, to, func(received int) bool { return received+int(to.Overflows()) >= sent })
	lost := to.Overflows()
	if lost == 0 || received+int(lost) != sent {
		t.Errorf("sent %d, received %d, overflows %d", sent, received, lost)
	}
	if again := to.Overflows(); again != lost {
		t.Errorf("asked twice: %d, then %d", lost, again)
	}
	to.Close()
	if after := to.Overflows(); after != lost {
		t.Errorf("after Close: %d, want %d", after, lost)
	}
}

// A dropped message is one for the kernel, however many datagrams it had coalesced.
func TestCoalescedDatagramsThatTheKernelDroppedCountAsOne(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{ReceiveBuffer: 4 << 10}), open(t, loopback4, Options{})
	if !to.Features().GRO || !from.Features().GSO {
		t.Skip("left out: this kernel does not coalesce datagrams")
	}
	const messages, each = 20, 32
	b := NewBatch(each)
	for range messages {
		for i := range each {
			b.Add(from, destination(to), nil, payload(i, 500))
		}
		if n, _ := b.Flush(); n != each {
			t.Fatalf("sent %d of %d", n, each)
		}
	}
	received := receiveUntil(t, to, func(received int) bool { return received/each+int(to.Overflows()) >= messages })
	if lost := to.Overflows(); lost == 0 || received%each != 0 || received/each+int(lost) != messages {
		t.Errorf("sent %d messages of %d datagrams, received %d datagrams, overflows %d", messages, each, received, lost)
	}
}

func TestAClosedSocketIsClosedForEveryone(t *testing.T) {
	t.Parallel()
	s := open(t, loopback4, Options{})
	r := NewReceiver(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if _, err := r.Fill(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Fill: %v", err)
	}
	b := NewBatch(1)
	b.Add(s, destination(s), nil, []byte("late"))
	if sent, dropped := b.Flush(); sent != 0 || dropped != 1 {
		t.Errorf("Flush: sent %d, dropped %d", sent, dropped)
	}
}

func TestCloseWaitsForTheUsersOfASocketAndFreesItsPort(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddrPort(ports.Address(t))
	s := open(t, at, Options{})
	if !s.fd.acquire() {
		t.Fatal("cannot use an open socket")
	}
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	for !s.fd.closing.Load() {
		runtime.Gosched()
	}
	if _, err := unix.Getsockname(s.fd.number); err != nil {
		t.Errorf("closed under a user: %v", err)
	}
	if s.fd.acquire() {
		t.Error("a closed socket took a new user")
	}
	select {
	case <-closed:
		t.Error("Close returned while the port was in use")
	default:
	}
	s.fd.release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if s.fd.acquire() {
		t.Error("a gone descriptor took a new user")
	}
	open(t, at, Options{})
}
