package relay

import (
	"net/netip"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// Segments of a connection of another gateway come here while the link to it does not work. If this gateway reset the
// connection at once, a link that failed for a second would end it.
func TestF22_AConnectionOfAnotherGatewayIsResetOnlyIfItsSegmentsKeepComing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.proxying()
	for i, at := range []netip.Addr{mappedAddr, podAddr} {
		from, to := netip.AddrPortFrom(callerAddr, 4242), netip.AddrPortFrom(at, port)
		send := func(flags header.TCPFlags) {
			before := w.arrived.Load()
			w.sendSegment(from, to, flags)
			w.until("the segment has arrived", func() bool { return w.arrived.Load() > before })
		}
		strays := func() uint64 {
			if i == 0 {
				return w.tcp().Strays
			}
			s, _ := w.relay.Proxied()
			return s.Strays
		}
		send(header.TCPFlagAck)
		w.advance(strayTime - time.Millisecond)
		send(header.TCPFlagAck | header.TCPFlagPsh)
		if got := strays(); got != 2 {
			t.Errorf("%v: %d segments were dropped, want 2", at, got)
		}
		if w.resets.Load() != int64(i) {
			t.Errorf("%v: the connection was reset", at)
		}
		w.advance(time.Millisecond)
		send(header.TCPFlagRst) // is never answered
		send(header.TCPFlagAck)
		w.until("the connection is reset", func() bool { return w.resets.Load() == int64(i+1) })
		if got := strays(); got != 2 {
			t.Errorf("%v: %d segments were dropped, want 2", at, got)
		}
	}
}

// A client whose gateway is gone may open a connection from the same port.
func TestAConnectionCanBeginWhereSegmentsOfAnOldOneWereDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.listen(port)
	from, to := netip.AddrPortFrom(callerAddr, 4242), netip.AddrPortFrom(mappedAddr, port)
	w.sendSegment(from, to, header.TCPFlagAck)
	w.sendSYN(from, to)
	w.until("the SYN is answered", func() bool { return len(w.synacks) > 0 })
	if got := w.tcp().Strays; got != 1 {
		t.Errorf("%d segments were dropped, want 1", got)
	}
}

func TestT17_ConnectionsOfOthersThatAreRememberedAreLimited(t *testing.T) {
	t.Parallel()
	var s strays
	id := func(n int) stack.TransportEndpointID {
		return stack.TransportEndpointID{LocalPort: uint16(n), RemotePort: uint16(n >> 16)}
	}
	at := func(d time.Duration) tcpip.MonotonicTime { return tcpip.MonotonicTime{}.Add(d) }
	for n := range maxStrays {
		if !s.waits(id(n), at(0)) {
			t.Fatalf("connection %d does not wait", n)
		}
	}
	if s.waits(id(maxStrays), at(time.Second)) {
		t.Error("a connection more waits, want a reset")
	}
	if !s.waits(id(0), at(time.Second)) {
		t.Error("a connection that is remembered does not wait")
	}
	if s.waits(id(0), at(strayAge)) || s.waits(id(0), at(2*strayAge-1)) {
		t.Error("a connection is forgotten while its segments keep coming, want a reset")
	}
	if !s.waits(id(maxStrays), at(strayAge)) {
		t.Error("there is no room after a while")
	}
	if !s.waits(id(0), at(2*strayAge)) {
		t.Error("a connection is remembered for too long")
	}
	s.waits(id(0), at(9*strayAge))
	if len(s.older) > 0 {
		t.Errorf("%d connections are remembered after a long time", len(s.older))
	}
}
