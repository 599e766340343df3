package relay

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"strait.dev/strait/test/ports"
)

// serveUDP puts a socket at the target.
func (w *world) serveUDP(port uint16) *net.UDPConn {
	w.Helper()
	c, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	w.must(err)
	w.Cleanup(func() { c.Close() })
	w.serves("udp", port, c.LocalAddr())
	return c
}

// echoUDP answers every datagram with itself.
func echoUDP(c *net.UDPConn) {
	b := make([]byte, 65536)
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		_, _ = c.WriteToUDPAddrPort(b[:n], from)
	}
}

// socket is a connected UDP socket of a caller.
func (w *world) socket(from netip.Addr, to netip.AddrPort) *gonet.UDPConn {
	w.Helper()
	local, remote := full(netip.AddrPortFrom(from, 0)), full(to)
	c, err := gonet.DialUDP(w.caller, &local, &remote, network(from))
	w.must(err)
	w.Cleanup(func() { c.Close() })
	return c
}

// asks sends a datagram and reports whether it comes back.
func (w *world) asks(c net.Conn, b []byte) {
	w.Helper()
	_, err := c.Write(b)
	w.must(err)
	w.receives(c, b)
}

func (w *world) receives(c net.Conn, b []byte) {
	w.Helper()
	got := make([]byte, 65536)
	n, err := c.Read(got)
	if err != nil || !bytes.Equal(got[:n], b) {
		w.Fatalf("%d bytes came back of %d, %v", n, len(b), err)
	}
}

func TestDatagramsToAMappedAddressReachTheTargetWhole(t *testing.T) {
	t.Parallel()
	for _, to := range []struct{ from, at netip.Addr }{{callerAddr, mappedAddr}, {callerAddr6, mappedAddr6}} {
		w := newWorld(t, Limits{})
		go echoUDP(w.serveUDP(port))
		defer w.timeFlows()()
		c := w.socket(to.from, netip.AddrPortFrom(to.at, port))
		for _, size := range []int{1, 0, 1200, 1392, 4000, 60000} { // more than the MTU of 1420 comes and goes in fragments
			w.asks(c, bytes.Repeat([]byte{7}, size))
		}
		w.until("everything is counted", func() bool { s := w.udp(); return s.ToCaller == 66593 && s.ToTarget == 66593 })
		if s := w.udp(); s.Opened != 1 || s.Open != 1 || s.Lost != 0 {
			t.Errorf("counted %+v", s)
		}
	}
}

// Sessions differ by the caller's port and by the mapped one, and no client receives what is
// another one's.
func TestEachCallersPortHasASessionOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	go echoUDP(w.serveUDP(port))
	go echoUDP(w.serveUDP(port + 1))
	sockets := []*gonet.UDPConn{
		w.socket(callerAddr, netip.AddrPortFrom(mappedAddr, port)), w.socket(callerAddr, netip.AddrPortFrom(mappedAddr, port)),
		w.socket(other, netip.AddrPortFrom(mappedAddr, port)), w.socket(callerAddr, netip.AddrPortFrom(mappedAddr, port+1)),
		w.socket(callerAddr6, netip.AddrPortFrom(mappedAddr6, port)),
	}
	for i, c := range sockets {
		_, err := fmt.Fprint(c, i)
		w.must(err)
	}
	for i, c := range sockets {
		w.receives(c, fmt.Append(nil, i))
	}
	if s := w.udp(); s.Open != len(sockets) {
		t.Errorf("counted %+v", s)
	}
}

// RFC 4787 REQ-5 and REQ-6: 5 min from the last datagram of either side.
func TestRFC4787REQ5_ASessionLivesForFiveMinutesFromItsLastDatagram(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	server := w.serveUDP(port)
	c := w.socket(callerAddr, netip.AddrPortFrom(mappedAddr, port))
	_, err := c.Write([]byte("first"))
	w.must(err)
	b := make([]byte, 10)
	_, at, err := server.ReadFromUDPAddrPort(b)
	w.must(err)
	for range 3 {
		w.advance(4 * time.Minute)
		_, err := server.WriteToUDPAddrPort([]byte("down"), at)
		w.must(err)
		w.receives(c, []byte("down"))
	}
	w.advance(4*time.Minute + 50*time.Second)
	if s := w.udp(); s.Open != 1 {
		t.Fatalf("%+v before 5 min", s)
	}
	w.advance(20 * time.Second)
	w.untilNothingIsLeft()
	if s := w.udp(); s.Expired != 1 {
		t.Errorf("counted %+v", s)
	}
	_, err = c.Write([]byte("again")) // another session
	w.must(err)
	if n, _, err := server.ReadFromUDPAddrPort(b); err != nil || string(b[:n]) != "again" {
		t.Errorf("received %q, %v", b[:n], err)
	}
}

// RFC 4787 REQ-5 (c): resolvers use a port for each question.
func TestRFC4787REQ5_AQuestionToPort53IsKeptForLess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	go echoUDP(w.serveUDP(53))
	for range 10 {
		w.asks(w.socket(callerAddr, netip.AddrPortFrom(mappedAddr, 53)), []byte("?"))
	}
	if s := w.udp(); s.Open != 10 {
		t.Errorf("counted %+v", s)
	}
	w.advance(20 * time.Second)
	w.untilNothingIsLeft()
}

func TestATargetsClosedPortIsReported(t *testing.T) {
	t.Parallel()
	for _, to := range []struct{ from, at netip.Addr }{{callerAddr, mappedAddr}, {callerAddr6, mappedAddr6}} {
		w := newWorld(t, Limits{})
		closed := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), ports.Free(t, 1)[0])
		w.serves("udp", port, net.UDPAddrFromAddrPort(closed))
		c := w.socket(to.from, netip.AddrPortFrom(to.at, port))
		_, err := c.Write([]byte("hello?"))
		w.must(err)
		w.untilTold(to.from, portUnreachable)
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("the caller's socket received something")
		}
		if s := w.udp(); s.Refused[TargetRefused] == 0 || s.Open != 1 { // RFC 4787 REQ-12: an error ends nothing
			t.Errorf("counted %+v", s)
		}
	}
}

func TestSessionsOfAMappingThatEndsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	go echoUDP(w.serveUDP(port))
	c, stays := w.socket(callerAddr, netip.AddrPortFrom(mappedAddr, port)), w.socket(callerAddr6, netip.AddrPortFrom(mappedAddr6, port))
	w.asks(c, []byte("x"))
	w.asks(stays, []byte("y"))
	w.must(w.relay.SetMappings(both[1:]))
	if s := w.udp(); s.Open != 1 {
		t.Errorf("%+v right after the change", s)
	}
	_, err := c.Write([]byte("x"))
	w.must(err)
	w.untilTold(callerAddr, portUnreachable) // by the stack itself
	w.asks(stays, []byte("z"))
}

func TestLimitsOfSessionsHoldAndAreReported(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		quota Quota
		why   Refusal
		from  netip.Addr
		at    netip.Addr
	}{
		{Quota{All: 3}, TooMany, callerAddr6, mappedAddr6},
		{Quota{PerMapping: 3}, TooManyOfMapping, other, mappedAddr},
		{Quota{PerCaller: 3}, TooManyOfCaller, callerAddr, mappedAddr},
	} {
		t.Run(test.why.String(), func(t *testing.T) {
			w := newWorld(t, Limits{Sessions: test.quota})
			go echoUDP(w.serveUDP(port))
			for range 3 {
				w.asks(w.socket(callerAddr, netip.AddrPortFrom(mappedAddr, port)), []byte("x"))
			}
			_, err := w.socket(test.from, netip.AddrPortFrom(test.at, port)).Write([]byte("x"))
			w.must(err)
			w.untilTold(test.from, prohibited)
			if s := w.udp(); s.Refused[test.why] != 1 || s.Open != 3 {
				t.Errorf("counted %+v", s)
			}
			w.advance(6 * time.Minute)
			w.untilNothingIsLeft()
			w.asks(w.socket(test.from, netip.AddrPortFrom(test.at, port)), []byte("y"))
		})
	}
}

// What has a wrong checksum opens nothing.
func TestADamagedDatagramOpensNoSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	w.serveUDP(port)
	before := w.carried.Load()
	w.send(callerAddr, mappedAddr, 17, []byte{0x12, 0x34, byte(port >> 8), byte(port & 0xff), 0, 9, 0xba, 0xad, 'x'})
	w.until("the packet is carried", func() bool { return w.carried.Load() > before })
	w.send(callerAddr, mappedAddr, 17, []byte{0x12, 0x34, byte(port >> 8), byte(port & 0xff), 0, 9, 0, 0, 'x'}) // without checksum
	w.until("a session is opened", func() bool { return w.udp().Opened > 0 })
	if s := w.udp(); s.Opened != 1 {
		t.Errorf("counted %+v", s)
	}
}
