package relay

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"strait.dev/strait/config"
	"strait.dev/strait/test/ports"
)

// local are the clients of this machine.
var local = config.Callers{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// forwarding makes the relay forward a port to targets at the caller's stack, which stands for the remote cluster here.
func (w *world) forwarding(protocol config.Protocol, targets ...netip.AddrPort) (at string, listen config.ListenAddress) {
	w.Helper()
	w.relay.source = func(to netip.Addr) netip.Addr { return mappedAddr }
	listen = config.ListenAddress{Addr: netip.MustParseAddr("127.0.0.1"), Port: ports.Free(w, 1)[0]}
	w.must(w.relay.SetForwards([]config.Forward{{Protocol: protocol, Listen: listen, Targets: targets}}, local))
	return listen.String(), listen
}

// remoteServer is a server of TCP in the remote cluster, that sends all back.
func (w *world) remoteServer(at netip.AddrPort) {
	w.Helper()
	l, err := gonet.ListenTCP(w.caller, full(at), network(at.Addr()))
	w.must(err)
	w.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
}

// request sends text to a forward and returns what comes back until the end.
func request(at, text string) (string, error) {
	c, err := net.Dial("tcp", at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := c.Write([]byte(text)); err != nil {
		return "", err
	}
	_ = c.(*net.TCPConn).CloseWrite()
	got, err := io.ReadAll(c)
	return string(got), err
}

func TestAForwardCarriesConnectionsToItsTarget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	target := netip.AddrPortFrom(callerAddr, 8080)
	w.remoteServer(target)
	at, _ := w.forwarding(config.TCP, target)
	if got, err := request(at, "to and fro"); err != nil || got != "to and fro" {
		t.Errorf("%q, %v", got, err)
	}
	w.until("the connection has ended", func() bool {
		s, _ := w.relay.Forwarded()
		return s.Open == 0 && s.Opened == 1 && s.ToTarget == 10 && s.ToCaller == 10
	})
}

// A target that refuses is tried once, and then avoided; the client does not notice.
func TestAnotherTargetIsTriedWhenOneRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	good, bad := netip.AddrPortFrom(callerAddr, 8080), netip.AddrPortFrom(other, 8080)
	w.remoteServer(good)
	w.relay.choose = func(int) int { return 0 }
	at, _ := w.forwarding(config.TCP, bad, good)
	for range 3 {
		if got, err := request(at, "hello"); err != nil || got != "hello" {
			t.Errorf("%q, %v", got, err)
		}
	}
	w.relay.mu.Lock()
	defer w.relay.mu.Unlock()
	for _, f := range w.relay.forwards {
		if _, ok := f.targets.aside[bad]; !ok || len(f.targets.aside) != 1 {
			t.Errorf("avoided: %v", f.targets.aside)
		}
	}
}

// A target that is silent takes some time of a connection's, if there are others.
func TestAnotherTargetIsTriedWhenOneIsSilent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	good, silent := netip.AddrPortFrom(callerAddr, 8080), netip.MustParseAddrPort("10.71.99.9:8080") // that no stack has
	w.remoteServer(good)
	w.relay.choose = func(int) int { return 0 }
	at, _ := w.forwarding(config.TCP, silent, good)
	done := make(chan string, 1)
	go func() {
		got, err := request(at, "hello")
		done <- fmt.Sprintf("%s %v", got, err)
	}()
	w.until("a target is tried", func() bool { return len(w.host.RegisteredEndpoints()) == 1 })
	w.advance(DefaultLimits.Try)
	if got := <-done; got != "hello <nil>" {
		t.Error(got)
	}
}

func TestAClientOfAForwardIsResetWhenNoTargetAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	at, listen := w.forwarding(config.TCP, netip.AddrPortFrom(callerAddr, 8080))
	if _, err := request(at, "hello"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("the target refuses: %v", err)
	}
	w.must(w.relay.SetForwards([]config.Forward{{Protocol: config.TCP, Listen: listen}}, local))
	if _, err := request(at, "hello"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("without targets: %v", err)
	}
	w.until("both are counted", func() bool {
		s, _ := w.relay.Forwarded()
		return s.Refused[TargetRefused] == 1 && s.Refused[NoTarget] == 1 && s.Open == 0
	})
}

// A change of the targets, and even the removal of the forward, leaves connections alone.
func TestConnectionsOfAForwardSurviveItsChangeAndItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	target := netip.AddrPortFrom(callerAddr, 8080)
	w.remoteServer(target)
	at, listen := w.forwarding(config.TCP, target)
	c, err := net.Dial("tcp", at)
	w.must(err)
	defer c.Close()
	works := func() {
		t.Helper()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Error(err)
		}
	}
	works()
	w.must(w.relay.SetForwards([]config.Forward{{Protocol: config.TCP, Listen: listen, Targets: []netip.AddrPort{netip.AddrPortFrom(other, 1)}}}, local))
	works()
	w.must(w.relay.SetForwards(nil, local))
	works()
	if _, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a forward that is removed: %v", err)
	}
}

func TestT17_ConnectionsBeyondTheQuotaOfForwardsAreReset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{ForwardConnections: Quota{All: 1, PerMapping: 1, PerCaller: 1}})
	target := netip.AddrPortFrom(callerAddr, 8080)
	w.remoteServer(target)
	at, _ := w.forwarding(config.TCP, target)
	c, err := net.Dial("tcp", at)
	w.must(err)
	defer c.Close()
	w.until("it is counted", func() bool { s, _ := w.relay.Forwarded(); return s.Opened == 1 })
	if _, err := request(at, "hello"); !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("beyond the quota: %v", err)
	}
}

func TestAForwardCarriesDatagramsUntilTheyStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	target := netip.AddrPortFrom(callerAddr, 8080)
	w.remoteEcho(target)
	at, listen := w.forwarding(config.UDP, target)
	c, err := net.Dial("udp", at)
	w.must(err)
	defer c.Close()
	exchange := func() {
		t.Helper()
		b := make([]byte, 100)
		_, err := c.Write([]byte("ping"))
		w.must(err)
		if n, err := c.Read(b); err != nil || string(b[:n]) != "ping" {
			t.Errorf("%q, %v", b[:n], err)
		}
	}
	exchange()
	exchange()
	open := func() int { _, s := w.relay.Forwarded(); return s.Open }
	if _, s := w.relay.Forwarded(); s.Opened != 1 {
		t.Errorf("%+v", s)
	}
	w.advance(DefaultLimits.Session + time.Second)
	w.until("the session has ended", func() bool { return open() == 0 })
	exchange()
	w.must(w.relay.SetForwards([]config.Forward{{Protocol: config.UDP, Listen: listen, Targets: []netip.AddrPort{netip.AddrPortFrom(other, 1)}}}, local))
	w.until("the session to a removed target has ended", func() bool { return open() == 0 })
}

func TestTargetsAreChosenAtRandomAmongThoseThatWork(t *testing.T) {
	t.Parallel()
	var all []netip.AddrPort
	for i := range 3 {
		all = append(all, netip.AddrPortFrom(callerAddr, uint16(i+1)))
	}
	turn := 0
	x := targets{choose: func(n int) int { turn++; return turn % n }}
	now := time.Unix(1000, 0)
	if _, _, ok := x.next(nil, now); ok {
		t.Error("one of no targets")
	}
	x.set(all)
	draw := func(now time.Time, tried ...netip.AddrPort) (drawn []netip.AddrPort) {
		for range 12 {
			if a, _, ok := x.next(tried, now); ok && !slices.Contains(drawn, a) {
				drawn = append(drawn, a)
			}
		}
		slices.SortFunc(drawn, netip.AddrPort.Compare)
		return drawn
	}
	x.avoid(all[0], now.Add(time.Second))
	for name, c := range map[string]struct{ got, want []netip.AddrPort }{
		"one is avoided":             {draw(now), all[1:]},
		"one was tried":              {draw(now, all[1]), all[2:]},
		"only the avoided one":       {draw(now, all[1:]...), all[:1]},
		"all were tried":             {draw(now, all...), nil},
		"the avoided one comes back": {draw(now.Add(time.Second)), all},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}
