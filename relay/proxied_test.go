package relay

import (
	"errors"
	"io"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"strait.dev/strait/config"
)

var (
	podAddr  = netip.MustParseAddr("10.0.2.9")
	podAddr6 = netip.MustParseAddr("fd00:10::9")
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// proxying makes the relay serve pods, of which podAddr and podAddr6 have the targets of the world.
func (w *world) proxying(except ...netip.Prefix) {
	w.Helper()
	w.must(w.relay.SetProxy(config.Proxy{Prefixes: []netip.Prefix{prefix("10.0.0.0/16"), prefix("fd00:10::/48"), prefix("127.0.0.0/8")}, Except: except}))
}

// listenAt puts a server of TCP at a pod's address.
func (w *world) listenAt(a netip.Addr, port uint16) io.Closer {
	w.Helper()
	l := w.listen(port)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets["tcp "+netip.AddrPortFrom(a, port).String()] = l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	return l
}

func TestTCPToAProxiedPodReachesIt(t *testing.T) {
	t.Parallel()
	for _, to := range []struct{ from, at netip.Addr }{{callerAddr, podAddr}, {callerAddr6, podAddr6}} {
		w := newWorld(t, Limits{})
		w.proxying()
		w.listenAt(to.at, port)
		c, err := w.connect(to.from, netip.AddrPortFrom(to.at, port))
		w.must(err)
		_, err = c.Write([]byte("to and fro"))
		w.must(err)
		w.must(c.CloseWrite())
		if got, err := io.ReadAll(c); err != nil || string(got) != "to and fro" {
			t.Errorf("%q came back, %v", got, err)
		}
		c.Close()
		w.until("the connection has ended", func() bool { s, _ := w.relay.Proxied(); return s.Open == 0 && s.Opened == 1 })
		if s := w.tcp(); s.Opened != 0 {
			t.Errorf("counted as mapped: %+v", s)
		}
	}
}

// A remote cluster reaches neither the gateway itself nor exceptions nor what is not proxied.
func TestT7_TheProxyDialsNothingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.proxying(prefix("10.0.9.0/24"))
	for _, a := range []string{"10.0.9.9", "10.1.2.9", "127.0.0.1", "169.254.169.254"} {
		at := netip.MustParseAddr(a)
		w.listenAt(at, port)
		if w.relay.served(stackAddress(at)) != nil {
			t.Errorf("%s is served", a)
		}
	}
	for _, a := range []string{"fd00:ec2::254", "100.100.100.200", "168.63.129.16", "169.254.169.254", "::1", "fe80::1", "224.0.0.1"} {
		if mayRelay(netip.MustParseAddr(a), nil) == nil {
			t.Errorf("%s may be reached", a)
		}
	}
	if _, err := w.connect(callerAddr, netip.MustParseAddrPort("10.0.9.9:5432")); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("an exception: %v", err)
	}
	if own := map[netip.Addr]bool{podAddr: true}; mayRelay(podAddr, own) == nil {
		t.Error("the gateway's own address may be reached")
	}
}

func TestConnectionsSurviveAChangeOfTheProxyThatKeepsTheirPrefix(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.proxying()
	w.listenAt(podAddr, port)
	c, err := w.connect(callerAddr, netip.AddrPortFrom(podAddr, port))
	w.must(err)
	w.proxying(prefix("10.0.9.0/24"))
	_, err = c.Write([]byte("x"))
	w.must(err)
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Errorf("after the change: %v", err)
	}
	w.must(w.relay.SetProxy(config.Proxy{}))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the prefix is withdrawn: %v, want a reset", err)
	}
	w.untilNothingIsLeft()
}

func TestT17_TheQuotaOfTheProxyIsItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{ProxyConnections: Quota{All: 2, PerMapping: 2, PerCaller: 2}})
	w.proxying()
	w.listenAt(podAddr, port)
	for range 2 {
		_, err := w.connect(callerAddr, netip.AddrPortFrom(podAddr, port))
		w.must(err)
	}
	w.sendSYN(netip.AddrPortFrom(callerAddr, 4000), netip.AddrPortFrom(podAddr, port))
	w.untilTold(callerAddr, prohibited)
	w.listen(port)
	_, err := w.connect(callerAddr, netip.AddrPortFrom(mappedAddr, port))
	w.must(err)
}

// What addresses a remote cluster asks for does not make the relay's memory grow.
func TestT17_ThePodsThatTheRelayRemembersAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.proxying()
	for a := netip.MustParseAddr("10.0.0.1"); len(w.relay.pods) < maxPods; a = a.Next() {
		w.relay.pod(a)
	}
	for a := netip.MustParseAddr("10.0.200.1"); a != netip.MustParseAddr("10.0.204.1"); a = a.Next() {
		if w.relay.pod(a) == nil {
			t.Fatalf("%v is not served", a)
		}
	}
	if n := len(w.relay.pods); n != maxPods {
		t.Errorf("%d pods, want %d", n, maxPods)
	}
}

// Packets ask for a pod all the time, and so while the prefixes are replaced.
func TestAPodIsServedAfterItsPrefixWasReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	whole, halves := config.Proxy{Prefixes: []netip.Prefix{prefix("10.0.0.0/16")}}, config.Proxy{Prefixes: []netip.Prefix{prefix("10.0.0.0/17"), prefix("10.0.128.0/17")}}
	for range 300 {
		w.must(w.relay.SetProxy(whole))
		var replaced atomic.Bool
		var packets sync.WaitGroup
		for range 4 {
			packets.Go(func() {
				for !replaced.Load() {
					w.relay.pod(podAddr)
				}
			})
		}
		w.must(w.relay.SetProxy(halves))
		replaced.Store(true)
		packets.Wait()
		if m := w.relay.pod(podAddr); m == nil || m.ctx.Err() != nil {
			t.Fatal("the pod has the mapping of a prefix that was withdrawn")
		}
	}
}
