package endpoint

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

var marker = Marker{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}

var loopback = netip.MustParseAddr("127.0.0.1")

// serve runs a server until the test ends and returns its address.
func serve(t *testing.T) netip.AddrPort {
	t.Helper()
	s, err := Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return netip.AddrPortFrom(loopback, s.Port())
}

// one runs one check.
func one(t *testing.T, c Check) Result {
	t.Helper()
	if c.Patience == 0 {
		c.Patience = time.Hour
	}
	c.ID = "it"
	results := Run(t.Context(), Order{Marker: marker, Sequences: []Sequence{{c}}})
	if len(results) != 1 || results[0].ID != "it" {
		t.Fatalf("results %+v, want one for the check", results)
	}
	return results[0]
}

// once runs a check without repeating it.
func once(t *testing.T, c Check) Result {
	t.Helper()
	if c.Protocol == TCP {
		return c.tcp(t.Context(), marker)
	}
	return c.datagram(t.Context(), marker)
}

// want checks the failure of a result.
func want(t *testing.T, r Result, f Failure) {
	t.Helper()
	if r.Failure != f {
		t.Errorf("failure %q (%s), want %q", r.Failure, r.Detail, f)
	}
}

func TestEchoReportsTheAddressThatTheServerSaw(t *testing.T) {
	t.Parallel()
	at := serve(t)
	for _, c := range []Check{
		{Protocol: TCP, Size: 64}, {Protocol: TCP, Size: 1 << 20},
		{Protocol: UDP, Size: 92, Mode: Whole}, {Protocol: UDP, Size: 1500, Mode: Whole}, {Protocol: UDP, Size: 9000, Mode: Fragment},
	} {
		c.To, c.Source = at, loopback
		var r Result
		wait.Until(t, "a reply arrives before the request is repeated", func() bool {
			r = one(t, c)
			return r.RTT > 0 || r.Failure != ""
		})
		want(t, r, "")
		size := int64(c.Size)
		if c.Protocol == UDP {
			size -= 28
		}
		if r.Bytes != size || r.Source != loopback || r.RTT <= 0 {
			t.Errorf("%+v: %+v, want %d bytes, the source and a time", c, r, size)
		}
	}
}

func TestWrongSourceIsDistinguishedFromNoReply(t *testing.T) {
	t.Parallel()
	at := serve(t)
	for _, p := range []Protocol{TCP, UDP} {
		want(t, one(t, Check{Protocol: p, Size: 92, To: at, Source: netip.MustParseAddr("10.72.1.5")}), WrongSource)
	}
}

func TestClosedPortIsRefused(t *testing.T) {
	t.Parallel()
	closed := netip.MustParseAddrPort(ports.Address(t))
	for _, p := range []Protocol{TCP, UDP} {
		want(t, once(t, Check{Protocol: p, Size: 92, To: closed}), Refused)
	}
}

func TestMissingReplyIsATimeout(t *testing.T) {
	t.Parallel()
	mute, err := net.ListenPacket("udp", "127.0.0.1:0") // never reads
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	to := mute.LocalAddr().(*net.UDPAddr).AddrPort()
	want(t, one(t, Check{Protocol: UDP, Size: 92, To: to, Patience: 400 * time.Millisecond}), Timeout)
	accepts, err := net.Listen("tcp", "127.0.0.1:0") // accepted by the kernel, but never served
	if err != nil {
		t.Fatal(err)
	}
	defer accepts.Close()
	want(t, one(t, Check{Protocol: TCP, Size: 92, To: accepts.Addr().(*net.TCPAddr).AddrPort(), Patience: 400 * time.Millisecond}), Timeout)
}

// As when a stream is stopped while what carries its connection is gone.
func TestAConnectionThatWaitsForItsServerCanBeStopped(t *testing.T) {
	t.Parallel()
	here, server := net.Pipe()
	defer here.Close()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	read := make(chan Result)
	go func() { read <- readHead(ctx, here, Result{}) }()
	if _, err := server.Write(request[:1]); err != nil { // it returns when this byte was read
		t.Fatal(err)
	}
	cancel()
	want(t, <-read, Timeout)
}

// spoil runs a server that modifies its replies with spoil, and closes connections after
// parts replies.
func spoil(t *testing.T, parts int, spoil func([]byte) []byte) (tcp, udp netip.AddrPort) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.Close(), u.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, headLen)
				putRequest(b, 0)
				putReply(b, netip.MustParseAddrPort(c.RemoteAddr().String()))
				_, _ = c.Write(b)
				b = make([]byte, 4096)
				for range parts {
					n, err := c.Read(b)
					if err != nil {
						return
					}
					_, _ = c.Write(spoil(b[:n]))
				}
			}()
		}
	}()
	go func() {
		b := make([]byte, largest)
		for {
			n, from, err := u.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			putReply(b[:n], from)
			_, _ = u.WriteToUDPAddrPort(spoil(b[:n]), from)
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort(), u.LocalAddr().(*net.UDPAddr).AddrPort()
}

func TestChangedBytesAreCorrupted(t *testing.T) {
	t.Parallel()
	tcp, udp := spoil(t, 1, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
	want(t, one(t, Check{Protocol: TCP, Size: 640, To: tcp}), Corrupted)
	want(t, one(t, Check{Protocol: UDP, Size: 640, To: udp}), Corrupted)
	_, udp = spoil(t, 1, func(b []byte) []byte { return b[:len(b)-1] })
	want(t, one(t, Check{Protocol: UDP, Size: 640, To: udp}), Corrupted)
}

func TestConnectionThatEndsEarlyIsClosed(t *testing.T) {
	t.Parallel()
	tcp, _ := spoil(t, 1, func(b []byte) []byte { return b[:len(b)/2] })
	want(t, once(t, Check{Protocol: TCP, Size: 640, To: tcp}), Closed)
}

func TestForeignServerIsNotAnEchoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			fmt.Fprintf(c, "%064d", 0)
			_ = c.Close()
		}
	}()
	want(t, one(t, Check{Protocol: TCP, Size: 64, To: l.Addr().(*net.TCPAddr).AddrPort()}), Corrupted)
}

func TestChecksAfterAFailedFirstCheckAreNotTried(t *testing.T) {
	t.Parallel()
	at := serve(t)
	second := Check{ID: "second", Protocol: TCP, To: at, Size: 64, Patience: time.Hour}
	first := second
	first.ID, first.Source = "first", netip.MustParseAddr("10.9.9.9")
	results := Run(t.Context(), Order{Marker: marker, Sequences: []Sequence{{first, second}, {second, first, second}}})
	for i, f := range []Failure{WrongSource, NotTried, "", WrongSource, ""} {
		want(t, results[i], f)
	}
}

func TestLateServerIsWaitedFor(t *testing.T) {
	t.Parallel()
	at := netip.MustParseAddrPort(ports.Address(t))
	tried := make(chan Result, 1)
	go func() {
		tried <- Run(t.Context(), Order{Marker: marker, Sequences: []Sequence{{{Protocol: TCP, To: at, Size: 64, Patience: time.Hour}}}})[0]
	}()
	// The connection is refused at least once before the server listens.
	if _, err := net.Dial("tcp", at.String()); err == nil {
		t.Fatal("a server is already listening")
	}
	s, err := Listen(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	want(t, <-tried, "")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestFlowRunsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	for source, f := range map[netip.Addr]Failure{loopback: "", netip.MustParseAddr("10.1.1.1"): WrongSource} {
		ctx, end := context.WithCancel(t.Context())
		echoed := 0
		at, _ := spoil(t, 1000, func(b []byte) []byte {
			if echoed += len(b); echoed > 2*part {
				end()
			}
			return b
		})
		begun := 0
		r := Flow(ctx, FlowOrder{Marker: marker, To: at, Source: source, Patience: time.Hour, Longest: time.Hour}, func() { begun++ })
		want(t, r, f)
		if begun != 1 {
			t.Errorf("it says %d times that it has begun", begun)
		}
		if r.Bytes < part || r.Silence <= 0 {
			t.Errorf("%+v, want some bytes and the longest silence", r)
		}
	}
}

func TestFlowSendsAPartOnEachBeatAndMeasuresTheLongestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			b := make([]byte, part)
			for n := 1; ; n++ {
				if _, err := io.ReadFull(far, b); err != nil {
					return
				}
				time.Sleep(time.Duration(n%3) * 10 * time.Millisecond)
				if _, err := far.Write(b); err != nil {
					return
				}
			}
		}()
		ctx, end := context.WithTimeout(t.Context(), 9*beat+beat/2)
		defer end()
		r := pace(ctx, marker, near, Result{}, func() {})
		near.Close()
		want(t, r, "")
		if r.Bytes != 10*part || r.Silence != 20*time.Millisecond {
			t.Errorf("%+v, want 10 parts and a silence of 20 ms", r)
		}
	})
}

func TestFlowWithoutEchoesEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		began := time.Now()
		want(t, pace(t.Context(), marker, near, Result{}, func() {}), Timeout)
		if took := time.Since(began); took != starve {
			t.Errorf("it ended after %v, want %v", took, starve)
		}
	})
}

func TestFlowThatCannotBeginSaysSo(t *testing.T) {
	t.Parallel()
	begun := 0
	r := Flow(t.Context(), FlowOrder{Marker: marker, To: netip.MustParseAddrPort(ports.Address(t)), Patience: time.Nanosecond, Longest: time.Hour}, func() { begun++ })
	if r.Failure == "" || begun != 1 {
		t.Errorf("%+v, begun %d times", r, begun)
	}
}

func TestInterruptedFlowIsReported(t *testing.T) {
	t.Parallel()
	tcp, _ := spoil(t, 1, func(b []byte) []byte { return b }) // echoes once, and closes
	want(t, Flow(t.Context(), FlowOrder{Marker: marker, To: tcp, Patience: time.Hour, Longest: time.Hour}, func() {}), Closed)
	tcp, _ = spoil(t, 1, func(b []byte) []byte { b[7]++; return b })
	want(t, Flow(t.Context(), FlowOrder{Marker: marker, To: tcp, Patience: time.Hour, Longest: time.Hour}, func() {}), Corrupted)
}

func TestUnansweredChecksAreRetried(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fails []Failure     // results of the attempts; each takes as long as the one before
		lasts time.Duration // duration of an attempt
		tries int
		want  Failure
	}{
		{"a success ends it", []Failure{Refused, Unreachable, Closed, Timeout, ""}, 0, 5, ""},
		{"a permanent failure ends it", []Failure{Refused, Corrupted}, 0, 2, Corrupted},
		{"the last failure is reported", []Failure{Refused, Unreachable}, 2 * time.Second, 5, Unreachable},
		{"an interrupted attempt does not count", []Failure{Refused, Refused, Refused, Refused, Timeout}, 2300 * time.Millisecond, 5, Refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+again/2)
				defer cancel()
				tries := 0
				r := Check{}.retry(ctx, func() Result {
					f := c.fails[min(tries, len(c.fails)-1)]
					tries++
					select {
					case <-time.After(c.lasts):
					case <-ctx.Done():
					}
					r := Result{Failure: f}
					if f == Closed {
						r.RTT = time.Millisecond // it had connected
					}
					return r
				})
				if want(t, r, c.want); tries != c.tries {
					t.Errorf("%d attempts, want %d", tries, c.tries)
				}
				if c.want == "" && (r.Tries != tries || r.Interrupted != 1) {
					t.Errorf("the result counts %d attempts of %d, and %d interrupted ones of 1", r.Tries, tries, r.Interrupted)
				}
			})
		})
	}
}
