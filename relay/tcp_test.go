package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"strait.dev/strait/config"
)

const port = 5432

func TestTCPToAMappedAddressReachesTheTarget(t *testing.T) {
	t.Parallel()
	for _, to := range []struct{ from, at netip.Addr }{{callerAddr, mappedAddr}, {callerAddr6, mappedAddr6}} {
		w := newWorld(t, Limits{})
		defer w.timeFlows()()
		l := w.listen(port)
		sent := bytes.Repeat([]byte("to and fro "), 150_000) // 1.6 MB: more than all buffers
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(c, c)
			c.Close()
		}()
		c, err := w.connect(to.from, netip.AddrPortFrom(to.at, port))
		w.must(err)
		go func() { _, _ = c.Write(sent); _ = c.CloseWrite() }()
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d came back, %v", len(got), len(sent), err)
		}
		c.Close()
		w.until("the connections have ended", func() bool { return w.tcp().Open == 0 })
		if s := w.tcp(); s.Opened != 1 || s.ToTarget != uint64(len(sent)) || s.ToCaller != uint64(len(sent)) {
			t.Errorf("counted %+v", s)
		}
	}
}

// What is not mapped, on mapped addresses or not, is the stack's to answer.
func TestOnlyMappedAddressesAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.listen(port)
	w.must(w.relay.SetMappings(both[:1]))
	if _, err := w.connect(callerAddr6, netip.AddrPortFrom(mappedAddr6, port)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("an address without mapping: %v", err)
	}
	if s := w.tcp(); s.Opened+s.Refused[TargetRefused] != 0 {
		t.Errorf("counted %+v", s)
	}
}

func TestEachHalfOfAConnectionEndsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	here, there := w.pair(w.listen(port))
	send, receive := func(c net.Conn, text string) {
		_, err := c.Write([]byte(text))
		w.must(err)
	}, func(c net.Conn, want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
			t.Errorf("received %q, %v; want %q", b, err, want)
		}
	}
	ended := func(c net.Conn) {
		t.Helper()
		if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes, %v; want the end", n, err)
		}
	}
	send(here, "question")
	w.must(here.CloseWrite())
	receive(there, "question")
	ended(there)
	send(there, "a long")
	receive(here, "a long")
	send(there, " answer")
	receive(here, " answer")
	w.must(there.CloseWrite())
	ended(here)
	here.Close()
	w.until("the connections have ended", func() bool { return w.tcp().Open == 0 })

	here, there = w.pair(w.listen(port + 1))
	w.must(there.CloseWrite()) // now the target first
	ended(here)
	send(here, "more")
	receive(there, "more")
	here.Close()
	ended(there)
	w.until("the connections have ended", func() bool { return w.tcp().Open == 0 })
	w.untilTimeLeavesNothing()
}

func TestAResetOfOneSideResetsTheOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	here, there := w.pair(w.listen(port))
	w.must(there.SetLinger(0))
	there.Close()
	if _, err := here.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("the caller: %v, want a reset", err)
	}

	l := w.listen(port + 1)
	var at net.Conn
	accepted := make(chan struct{})
	go func() { defer close(accepted); at, _ = l.Accept() }()
	raw, err := w.connect(callerAddr, netip.AddrPortFrom(mappedAddr, port+1))
	w.must(err)
	<-accepted
	defer at.Close()
	abort(t, w, raw)
	if _, err := at.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the target: %v, want a reset", err)
	}
	w.untilNothingIsLeft()
}

// abort makes a caller reset its connection.
func abort(t *testing.T, w *world, c *gonet.TCPConn) {
	t.Helper()
	for _, e := range w.caller.RegisteredEndpoints() {
		e.Abort()
	}
	c.Close()
}

func TestARefusalOfTheTargetReachesTheClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	if _, err := w.connect(callerAddr, netip.AddrPortFrom(mappedAddr, port)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v, want a refusal", err)
	}
	if n := w.tcp().Refused[TargetRefused]; n != 1 {
		t.Errorf("counted %d", n)
	}
	w.untilNothingIsLeft()
}

func TestAnUnreachableTargetIsReportedToTheClient(t *testing.T) {
	t.Parallel()
	for _, from := range []struct {
		caller, at netip.Addr
		err        syscall.Errno
	}{
		{callerAddr, mappedAddr, syscall.EHOSTUNREACH}, {callerAddr6, mappedAddr6, syscall.ENETUNREACH},
		// A filter or a router rejects it: there are sockets and ports enough.
		{callerAddr, mappedAddr, syscall.EPERM}, {callerAddr6, mappedAddr6, syscall.EACCES},
	} {
		w := newWorld(t, Limits{})
		w.setDial(func(context.Context, string) error { return &net.OpError{Op: "dial", Err: from.err} })
		told := make(chan error, 1)
		go func() {
			_, err := w.connect(from.caller, netip.AddrPortFrom(from.at, port))
			told <- err
		}()
		w.untilTold(from.caller, hostUnreachable)
		if from.caller.Is4() { // the caller's stack does not know the code of IPv6
			if err := <-told; err == nil || !strings.Contains(err.Error(), "no route") {
				t.Errorf("%v, want no route", err)
			}
		}
		if n := w.tcp().Refused[TargetUnreachable]; n != 1 {
			t.Errorf("counted %d", n)
		}
		w.untilNothingIsLeft()
	}
}

// The caller's SYN stays without answer, as the target would leave it, and its next one
// is a new try.
func TestT17_ATargetThatIsSilentHoldsNothingForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	dialled := make(chan struct{}, 100)
	w.setDial(func(ctx context.Context, _ string) error {
		dialled <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	})
	result := make(chan error, 1)
	go func() {
		_, err := w.connect(callerAddr, netip.AddrPortFrom(mappedAddr, port))
		result <- err
	}()
	<-dialled
	if open := w.tcp().Open; open != 1 {
		t.Errorf("%d open while dialling, want 1: what is dialled counts", open)
	}
	w.advance(DefaultLimits.Dial)
	w.until("the dial has ended", func() bool { return w.tcp().Refused[TargetSilent] == 1 })
	select {
	case err := <-result:
		t.Fatalf("the caller received %v, want silence", err)
	default:
	}
	// The caller's SYN again. One that arrives while the first attempt ends is taken for a repetition.
	w.until("the target is dialled again", func() bool { w.advance(10 * time.Second); return len(dialled) > 0 })
	<-dialled
	w.until("the caller gives up", func() bool { w.advance(10 * time.Second); return len(result) == 1 })
	if err := <-result; err == nil || !strings.Contains(err.Error(), "timed out") {
		t.Errorf("the caller received %v in the end, want its own timeout", err)
	}
	w.advance(DefaultLimits.Dial)
	w.untilNothingIsLeft()
}

// A caller that never answers the SYN-ACK, since it never sent the SYN, holds the target's
// connection for the time of one dial.
func TestT17_ACallerThatIsSilentHoldsNothingForLong(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	l := w.listen(port)
	w.sendSYN(netip.AddrPortFrom(netip.MustParseAddr("10.71.9.9"), 4000), netip.AddrPortFrom(mappedAddr, port)) // forged address
	there, err := l.AcceptTCP()
	w.must(err)
	defer there.Close()
	w.until("the handshake has begun", func() bool { return len(w.host.RegisteredEndpoints()) == 1 })
	w.advance(DefaultLimits.Dial)
	if _, err := there.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the target saw %v, want a reset", err)
	}
	w.untilNothingIsLeft()
	if n := w.tcp().Refused[CallerSilent]; n != 1 {
		t.Errorf("counted %d", n)
	}
}

// RFC 5382 REQ-5: an established connection on which nothing moves lives for 2 h 4 min.
func TestRFC5382REQ5_AnIdleConnectionEndsAfterTwoHoursAndFourMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	here, there := w.pair(w.listen(port))
	w.advance(2*time.Hour + 3*time.Minute)
	if s := w.tcp(); s.Open != 1 || s.Expired != 0 {
		t.Fatalf("%+v after 2 h 3 min", s)
	}
	_, err := there.Write([]byte("x"))
	w.must(err)
	_, err = io.ReadFull(here, make([]byte, 1))
	w.must(err)
	w.until("the byte is counted", func() bool { return w.tcp().ToCaller == 1 })
	w.advance(2*time.Hour + 3*time.Minute) // from the byte on
	if s := w.tcp(); s.Open != 1 || s.Expired != 0 {
		t.Fatalf("%+v 2 h 3 min after a byte", s)
	}
	w.advance(2 * time.Minute)
	w.until("the connections have ended", func() bool { return w.tcp().Expired == 1 })
	if _, err := here.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("the caller: %v, want a reset", err)
	}
	if _, err := there.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the target: %v, want a reset", err)
	}
	w.untilNothingIsLeft()
}

func TestRFC5382REQ5_AHalfClosedConnectionEndsAfterFourMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	here, there := w.pair(w.listen(port))
	w.must(here.CloseWrite())
	if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	w.advance(3*time.Minute + 59*time.Second)
	if s := w.tcp(); s.Open != 1 {
		t.Fatalf("%+v after less than 4 min", s)
	}
	w.until("the connections have ended", func() bool { w.advance(time.Second); return w.tcp().Expired == 1 })
	if now := w.clock.Now().Sub(time.Unix(0, 0)); now > time.Hour {
		t.Errorf("it ended after %v", now)
	}
	w.untilNothingIsLeft()
}

// Both ends receive keepalives, which need no byte of theirs, and the connection works.
func TestAMappedTCPServiceSurvivesTenMinutesIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	here, there := w.pair(w.listen(port))
	before := w.host.Stats().TCP.SegmentsSent.Value()
	w.advance(10 * time.Minute)
	if sent := w.host.Stats().TCP.SegmentsSent.Value() - before; sent < 4 {
		t.Errorf("%d keepalives in 10 min, want one each 2 min", sent)
	}
	echoed(t, here, there)
}

func echoed(t *testing.T, here, there net.Conn) {
	t.Helper()
	for _, c := range []struct{ from, to net.Conn }{{here, there}, {there, here}} {
		if _, err := c.from.Write([]byte("still here")); err != nil {
			t.Error(err)
		}
		b := make([]byte, 10)
		if _, err := io.ReadFull(c.to, b); err != nil || string(b) != "still here" {
			t.Errorf("received %q, %v", b, err)
		}
	}
}

// A caller whose cluster went away without a word is noticed by keepalives.
func TestACallerThatIsGoneIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	_, there := w.pair(w.listen(port))
	w.lost.Store(true)
	w.advance(20 * time.Minute)
	if _, err := there.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the target: %v, want a reset", err)
	}
	w.untilNothingIsLeft()
}

func TestAMappingThatEndsOrHasAnotherTargetEndsItsConnections(t *testing.T) {
	t.Parallel()
	for name, next := range map[string][]config.Mapping{
		"withdrawn":      both[1:],
		"another target": {{External: mappedAddr, Target: netip.MustParseAddr("192.0.2.78")}, both[1]},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Limits{})
			l := w.listen(port)
			here, there := w.pair(l)
			var stays *net.TCPConn
			accepted := make(chan struct{})
			go func() { defer close(accepted); stays, _ = l.AcceptTCP() }()
			other, err := w.connect(callerAddr6, netip.AddrPortFrom(mappedAddr6, port))
			w.must(err)
			defer other.Close()
			<-accepted
			defer stays.Close()
			dialling := make(chan struct{})
			w.setDial(func(ctx context.Context, _ string) error { close(dialling); <-ctx.Done(); return ctx.Err() })
			refused := make(chan error, 1)
			go func() {
				_, err := w.connect(callerAddr, netip.AddrPortFrom(mappedAddr, port))
				refused <- err
			}()
			<-dialling

			w.must(w.relay.SetMappings(next))
			if s := w.tcp(); s.Open != 1 || s.Refused[Withdrawn] != 1 {
				t.Errorf("%+v right after the change, want one open", s)
			}
			if _, err := here.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
				t.Errorf("the caller: %v, want a reset", err)
			}
			if _, err := there.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the target: %v, want a reset", err)
			}
			if err := <-refused; err == nil || !strings.Contains(err.Error(), "refused") {
				t.Errorf("who was waiting: %v, want a refusal", err)
			}
			echoed(t, other, stays)
		})
	}
}

func TestASlowReaderHoldsBackTheOtherSide(t *testing.T) {
	t.Parallel()
	const all = 16 << 20 // bytes, more than what the buffers on the path hold
	w := newWorld(t, Limits{})
	defer w.timeFlows()()
	here, there := w.pair(w.listen(port))
	var done atomic.Bool
	go func() {
		_, _ = there.Write(make([]byte, all))
		done.Store(true)
		there.Close()
	}()
	raw, err := there.SyscallConn()
	w.must(err)
	const often = 50 // looks in a row: what is held somewhere on the path flows on meanwhile
	full := 0
	w.until("the target cannot send any more", func() bool {
		var ready int
		w.must(raw.Control(func(fd uintptr) { ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0) }))
		if full++; ready > 0 {
			full = 0
		}
		if done.Load() {
			t.Fatalf("%d bytes are held for a caller that reads nothing", all)
		}
		return full == often
	})
	got, err := io.Copy(io.Discard, here)
	if err != nil || got != all {
		t.Errorf("%d bytes of %d arrived, %v", got, all, err)
	}
}

// Memory is bounded by how many connections have buffers that grow.
func TestConnectionsBeyondLargeBuffersHaveSmallBuffersAndWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{LargeBuffers: 1})
	defer w.timeFlows()()
	l := w.listen(port)
	one, oneThere := w.pair(l)
	two, twoThere := w.pair(l)
	w.until("there is one of each", func() bool {
		var small, large int
		for _, e := range w.host.RegisteredEndpoints() {
			o := e.(*tcp.Endpoint).SocketOptions()
			if o.GetSendBufferSize() == smallBuffer && o.GetReceiveBufferSize() == smallBuffer {
				small++
			} else {
				large++
			}
		}
		return small == 1 && large == 1
	})
	for n, c := range []struct{ here, there net.Conn }{{one, oneThere}, {two, twoThere}} {
		sent, got := bytes.Repeat([]byte{byte(n)}, 1<<20), make([]byte, 1<<20)
		go func() { _, _ = io.Copy(c.there, c.there) }()
		go func() { _, _ = c.here.Write(sent) }()
		if _, err := io.ReadFull(c.here, got); err != nil || !bytes.Equal(got, sent) {
			t.Errorf("connection %d: not what was sent, %v", n, err)
		}
	}
}

func TestLimitsOfConnectionsHoldAndAreReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		quota Quota
		why   Refusal
		from  netip.Addr // one more
		at    netip.Addr
	}{
		{Quota{All: 3}, TooMany, other, mappedAddr},
		{Quota{PerMapping: 3}, TooManyOfMapping, other, mappedAddr},
		{Quota{PerCaller: 3}, TooManyOfCaller, callerAddr, mappedAddr},
	} {
		t.Run(test.why.String(), func(t *testing.T) {
			w := newWorld(t, Limits{Connections: test.quota})
			l := w.listen(port)
			var here []*gonet.TCPConn
			for range 3 {
				c, there := w.pair(l)
				go func() { _, _ = io.Copy(there, there); there.Close() }()
				here = append(here, c)
			}
			_, err := w.connect(test.from, netip.AddrPortFrom(test.at, port))
			if err == nil {
				t.Fatal("one too many was let in")
			}
			w.untilTold(test.from, prohibited)
			if s := w.tcp(); s.Refused[test.why] != 1 || s.Open != 3 {
				t.Errorf("counted %+v", s)
			}
			here[0].Close()
			w.until("there is room", func() bool { return w.tcp().Open == 2 })
			c, err := w.connect(test.from, netip.AddrPortFrom(test.at, port))
			w.must(err)
			at, err := l.AcceptTCP()
			w.must(err)
			at.Close()
			c.Close()
			for _, c := range here[1:] {
				c.Close()
			}
			w.until("the connections have ended", func() bool { return w.tcp().Open == 0 })
			w.untilTimeLeavesNothing()
		})
	}
}

func TestAHundredConnectionsComeAndGoAndLeaveNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{TimeWait: 10, LargeBuffers: 5})
	stop := w.timeFlows()
	defer stop()
	l := w.listen(port)
	go func() {
		for i := 0; ; i++ {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if i%3 == 0 {
					_, _ = c.Write([]byte("bye")) // and ends first
					return
				}
				_, _ = io.Copy(c, c)
				if i%3 == 1 {
					_ = c.SetLinger(0)
				}
			}()
		}
	}()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			c, err := w.connect(callerAddr, netip.AddrPortFrom(mappedAddr, port))
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = c.Write([]byte("hello"))
			_ = c.CloseWrite()
			_, _ = io.ReadAll(c)
			c.Close()
		})
	}
	all.Wait()
	w.until("the connections have ended", func() bool { return w.tcp().Open == 0 })
	if n := w.relay.timeWait.now.Load(); n > 10 {
		t.Errorf("%d connections in TIME-WAIT, want 10 at most", n)
	}
	stop()
	w.untilTimeLeavesNothing()
	if s := w.tcp(); s.Opened != 100 {
		t.Errorf("counted %+v", s)
	}
}

func TestTargetsThatCallersMustNotReachAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	own, err := net.InterfaceAddrs()
	w.must(err)
	bad := []string{"127.0.0.1", "127.8.8.8", "169.254.169.254", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "::1", "fe80::1", "ff02::1"}
	for _, a := range own {
		bad = append(bad, netip.MustParsePrefix(a.String()).Addr().String())
	}
	for _, a := range bad {
		err := w.relay.SetMappings([]config.Mapping{{External: mappedAddr, Target: netip.MustParseAddr(a)}, both[1]})
		if err == nil || !strings.Contains(err.Error(), "mapping of 10.70.1.9: target "+a) {
			t.Errorf("%s: %v", a, err)
		}
		if served := w.relay.Mappings(); len(served) != 1 || served[0] != both[1] {
			t.Errorf("%s: served %v, want only the other mapping", a, served)
		}
	}
}
