package relay

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"strait.dev/strait/config"
)

// quotaWorld counts in a usage, at times that the test sets.
type quotaWorld struct {
	usage *usage
	now   int64
	left  chan string
}

func newQuotaWorld(q Quota) *quotaWorld {
	w := &quotaWorld{left: make(chan string, 100)}
	w.usage = newUsage(q, time.Minute, func() int64 { return w.now })
	return w
}

// take opens one that was active at the current time, or returns why there is no place.
func (w *quotaWorld) take(name string, served uint16, caller byte) (*slot, *idle, string) {
	s, refusal, ok := w.usage.take(netip.AddrPortFrom(netip.Addr{}, served), netip.AddrFrom4([4]byte{10, 0, 0, caller}))
	if !ok {
		return nil, nil, refusal.String()
	}
	i := new(idle)
	i.moved.Store(w.now)
	s.hold(i, func() { w.left <- name })
	return s, i, ""
}

func (w *quotaWorld) passes(d time.Duration) { w.now += int64(d) }

func TestT10_WhenALimitIsReachedTheLongestIdleLeaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		quota  Quota
		served uint16 // and caller of the one that needs a place
		caller byte
		leaves string
		says   string // before any is idle
	}{
		{"all", Quota{3, 9, 9}, 9, 9, "first", "too_many"},
		{"of one forward", Quota{9, 2, 9}, 2, 9, "second", "too_many_of_mapping"},
		{"of one caller", Quota{9, 9, 2}, 9, 2, "second", "too_many_of_caller"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newQuotaWorld(c.quota)
			w.take("first", 1, 1)
			w.passes(time.Second)
			second, _, _ := w.take("second", 2, 2)
			_, third, _ := w.take("third", 2, 2)
			w.passes(time.Minute - 2*time.Second)
			if _, _, why := w.take("next", c.served, c.caller); why != c.says {
				t.Fatalf("before any is idle: %q", why)
			}
			third.moved.Store(w.now)
			w.passes(time.Minute - 1)
			if _, _, why := w.take("next", c.served, c.caller); why != "" {
				t.Fatalf("while one is idle: %q", why)
			}
			if left := <-w.left; left != c.leaves {
				t.Errorf("%s left", left)
			}
			if _, _, why := w.take("next", c.served, c.caller); why != "" && w.usage.taken() > 3 {
				t.Errorf("%q, %d count", why, w.usage.taken())
			}
			second.give()
			second.give() // counts once
			if n := w.usage.taken(); n < 2 || n > 3 {
				t.Errorf("%d count", n)
			}
		})
	}
}

func TestOnesThatEndAreNotAskedToLeave(t *testing.T) {
	t.Parallel()
	w := newQuotaWorld(Quota{2, 2, 2})
	leaving, _, _ := w.take("leaving", 1, 1)
	opening, refusal, ok := w.usage.take(netip.AddrPort{}, netip.Addr{}) // being dialled
	if !ok {
		t.Fatal(refusal)
	}
	leaving.keep()
	w.passes(time.Hour)
	if _, _, why := w.take("next", 1, 1); why != "too_many" {
		t.Errorf("%q", why)
	}
	opening.give()
	leaving.give()
	if w.usage.taken() != 0 || len(w.usage.served)+len(w.usage.callers)+len(w.usage.held) != 0 {
		t.Errorf("left: %+v", w.usage)
	}
}

// A flood of what has no place costs no search while none of those that have one can have been idle for long enough.
func TestARefusalIsRememberedUntilOneCanBeIdle(t *testing.T) {
	t.Parallel()
	for _, q := range []Quota{{2, 9, 9}, {9, 2, 9}, {9, 9, 2}} {
		w := newQuotaWorld(q)
		next := func() string { _, _, why := w.take("next", 1, 1); return why }
		_, first, _ := w.take("first", 1, 1)
		w.passes(10 * time.Second)
		_, second, _ := w.take("second", 1, 1)
		if why := next(); why == "" {
			t.Fatalf("%+v: there is a place", q)
		}
		second.moved.Store(-int64(time.Hour)) // time does not go back: a search would find it
		w.passes(49 * time.Second)
		if why := next(); why == "" {
			t.Errorf("%+v: all were searched", q)
		}
		second.moved.Store(int64(10 * time.Second))
		first.moved.Store(w.now)
		w.passes(time.Second)
		if why := next(); why == "" {
			t.Errorf("%+v: the first one left, which was active", q)
		}
		w.passes(10*time.Second - 1)
		if why := next(); why == "" {
			t.Errorf("%+v: one left too early", q)
		}
		w.passes(1)
		if why := next(); why != "" || <-w.left != "second" {
			t.Errorf("%+v: %q, want the second one to leave", q, why)
		}
	}
}

// dialFrom opens a connection or session to a forward from an address of this machine, and exchanges a byte over it.
func (w *world) dialFrom(network, from, at string) (net.Conn, error) {
	w.Helper()
	var local net.Addr = &net.TCPAddr{IP: net.ParseIP(from)}
	if network == "udp" {
		local = &net.UDPAddr{IP: net.ParseIP(from)}
	}
	c, err := (&net.Dialer{LocalAddr: local}).Dial(network, at)
	if err != nil {
		return nil, err
	}
	w.Cleanup(func() { c.Close() })
	_, err = c.Write([]byte("x"))
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	return c, err
}

// untilActive waits until so many of a usage's were active at the current time, and so many may leave.
func (w *world) untilActive(u *usage, active, held int) {
	w.Helper()
	w.until("they are active", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		n := 0
		for _, s := range u.held {
			if s.idle.moved.Load() == u.now() {
				n++
			}
		}
		return n == active && len(u.held) == held
	})
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF)
}

func TestT10_IdleConnectionsOfAForwardMakeRoomForOtherCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{ForwardConnections: Quota{All: 2, PerMapping: 2, PerCaller: 2}})
	target := netip.AddrPortFrom(callerAddr, 8080)
	w.remoteServer(target)
	at, _ := w.forwarding(config.TCP, target)
	first, err := w.dialFrom("tcp", "127.0.0.1", at)
	w.must(err)
	second, err := w.dialFrom("tcp", "127.0.0.1", at)
	w.must(err)
	u := w.relay.ofForwards.connections
	counted := func(bytes uint64) { // in both directions, after which time may pass
		w.until("all is counted", func() bool { s, _ := w.relay.Forwarded(); return s.ToTarget == bytes && s.ToCaller == bytes })
	}
	counted(2)
	w.untilActive(u, 2, 2)
	if _, err := w.dialFrom("tcp", "127.0.0.2", at); !isReset(err) {
		t.Errorf("while both are active: %v", err)
	}
	w.advance(DefaultLimits.Room)
	_, err = second.Write([]byte("x"))
	w.must(err)
	_, err = io.ReadFull(second, make([]byte, 1))
	w.must(err)
	counted(3)
	w.untilActive(u, 1, 2)
	third, err := w.dialFrom("tcp", "127.0.0.2", at)
	w.must(err)
	if _, err := first.Read(make([]byte, 1)); !isReset(err) {
		t.Errorf("the idle connection: %v", err)
	}
	for _, c := range []net.Conn{second, third} {
		_, err = c.Write([]byte("x"))
		w.must(err)
		_, err = io.ReadFull(c, make([]byte, 1))
		w.must(err)
	}
	w.untilActive(u, 2, 2)
	if s, _ := w.relay.Forwarded(); s.Open != 2 || s.Evicted != 1 || s.Refused[TooMany] != 1 {
		t.Errorf("counted %+v", s)
	}
}

// remoteEcho is a server of UDP in the remote cluster, that sends all back.
func (w *world) remoteEcho(at netip.AddrPort) {
	w.Helper()
	local := full(at)
	server, err := gonet.DialUDP(w.caller, &local, nil, network(at.Addr()))
	w.must(err)
	w.Cleanup(func() { server.Close() })
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := server.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(b[:n], from)
		}
	}()
}

func TestT10_IdleSessionsOfAForwardMakeRoomForOtherCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{ForwardSessions: Quota{All: 1, PerMapping: 1, PerCaller: 1}})
	target := netip.AddrPortFrom(callerAddr, 8080)
	w.remoteEcho(target)
	at, _ := w.forwarding(config.UDP, target)
	_, err := w.dialFrom("udp", "127.0.0.1", at)
	w.must(err)
	w.untilActive(w.relay.ofForwards.sessions, 1, 1)
	w.advance(DefaultLimits.Room)
	_, err = w.dialFrom("udp", "127.0.0.2", at)
	w.must(err)
	if _, s := w.relay.Forwarded(); s.Open != 1 || s.Evicted != 1 {
		t.Errorf("counted %+v", s)
	}
}

func TestT10_IdleConnectionsToAMappedAddressMakeRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Connections: Quota{All: 1, PerMapping: 1, PerCaller: 1}})
	l := w.listen(port)
	idle, _ := w.pair(l)
	w.untilActive(w.relay.ofMappings.connections, 1, 1)
	w.advance(DefaultLimits.Room)
	next, there := w.pair(l)
	if _, err := idle.Read(make([]byte, 1)); err == nil {
		t.Error("the idle connection is open")
	}
	if _, err := there.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(next, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if s := w.tcp(); s.Evicted != 1 {
		t.Errorf("counted %+v", s)
	}
}

func TestT3_OnlyItsCallersUseAForward(t *testing.T) {
	t.Parallel()
	for _, protocol := range []config.Protocol{config.TCP, config.UDP} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Limits{})
			target := netip.AddrPortFrom(callerAddr, 8080)
			w.remoteServer(target)
			w.remoteEcho(target)
			at, listen := w.forwarding(protocol, target)
			forwards := []config.Forward{{Protocol: protocol, Listen: listen, Targets: []netip.AddrPort{target}}}
			set := func(prefixes, except string) {
				from := config.Callers{Prefixes: []netip.Prefix{netip.MustParsePrefix(prefixes)}}
				if except != "" {
					from.Except = []netip.Prefix{netip.MustParsePrefix(except)}
				}
				w.must(w.relay.SetForwards(forwards, from))
			}
			refused := func() uint64 {
				tcp, udp := w.relay.Forwarded()
				return tcp.Refused[ForeignCaller] + udp.Refused[ForeignCaller]
			}
			send := func(from string) {
				c, err := (&net.Dialer{LocalAddr: map[config.Protocol]net.Addr{
					config.TCP: &net.TCPAddr{IP: net.ParseIP(from)}, config.UDP: &net.UDPAddr{IP: net.ParseIP(from)},
				}[protocol]}).Dial(string(protocol), at)
				if err == nil { // else it is reset already
					w.Cleanup(func() { c.Close() })
					_, _ = c.Write([]byte("x"))
				}
			}
			set("127.0.0.1/32", "")
			send("127.0.0.2")
			w.until("another caller is refused", func() bool { return refused() == 1 })
			set("127.0.0.0/8", "127.0.0.2/32") // a gateway of another Peering
			send("127.0.0.2")
			w.until("an exception is refused", func() bool { return refused() == 2 })
			w.must(w.relay.SetForwards(forwards, config.Callers{}))
			send("127.0.0.1")
			w.until("no caller is allowed", func() bool { return refused() == 3 })
			set("127.0.0.0/8", "127.0.0.2/32")
			if _, err := w.dialFrom(string(protocol), "127.0.0.1", at); err != nil {
				t.Error(err)
			}
			if tcp, udp := w.relay.Forwarded(); tcp.Opened+udp.Opened != 1 {
				t.Errorf("counted %+v %+v", tcp, udp)
			}
		})
	}
}

func TestSessionsOfCallersThatAreRemovedEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	target := netip.AddrPortFrom(callerAddr, 8080)
	w.remoteEcho(target)
	at, listen := w.forwarding(config.UDP, target)
	_, err := w.dialFrom("udp", "127.0.0.1", at)
	w.must(err)
	forwards := []config.Forward{{Protocol: config.UDP, Listen: listen, Targets: []netip.AddrPort{target}}}
	w.must(w.relay.SetForwards(forwards, config.Callers{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}}))
	w.until("the session has ended", func() bool { _, s := w.relay.Forwarded(); return s.Open == 0 })
}
