package relay

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"strait.dev/strait/packet"
	"strait.dev/strait/test/ports"
)

// open is an unconnected UDP socket of a caller.
func (w *world) open(from netip.Addr) *gonet.UDPConn {
	w.Helper()
	local := full(netip.AddrPortFrom(from, 0))
	c, err := gonet.DialUDP(w.caller, &local, nil, network(from))
	w.must(err)
	w.Cleanup(func() { c.Close() })
	return c
}

func (w *world) sendTo(c net.PacketConn, to netip.AddrPort, b []byte) {
	w.Helper()
	_, err := c.WriteTo(b, net.UDPAddrFromAddrPort(to))
	w.must(err)
}

// receivesFrom checks the next datagram of a socket, and its source.
func (w *world) receivesFrom(c net.PacketConn, from netip.AddrPort, b []byte) {
	w.Helper()
	got := make([]byte, 65536)
	n, at, err := c.ReadFrom(got)
	w.must(err)
	if a := at.(*net.UDPAddr).AddrPort(); a != from || !bytes.Equal(got[:n], b) {
		w.Fatalf("%d bytes from %v, want %d from %v", n, a, len(b), from)
	}
}

// TFTP (RFC 1350 section 4): the request goes to port 69, the server answers from a port that it chooses for the
// transfer, to which the client sends all that follows, from the same port.
func TestATargetAnswersFromAnotherPort(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, at netip.Addr
		proxied  bool
		block    int
	}{
		"IPv4":             {callerAddr, mappedAddr, false, 512},
		"IPv6":             {callerAddr6, mappedAddr6, false, 512},
		"in fragments":     {callerAddr, mappedAddr, false, 40000}, // RFC 2348
		"in IPv6 fragment": {callerAddr6, mappedAddr6, false, 40000},
		"of a proxied pod": {callerAddr, podAddr, true, 512},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Limits{})
			const request, transfer = 69, 2069
			server, worker := w.serveUDP(request), w.serveUDP(transfer)
			if c.proxied {
				w.proxying()
				w.serveAt(podAddr, request, server)
				w.serveAt(podAddr, transfer, worker)
			}
			defer w.timeFlows()()
			client := w.open(c.from)
			w.sendTo(client, netip.AddrPortFrom(c.at, request), []byte("read"))
			b := make([]byte, 65536)
			n, peer, err := server.ReadFromUDPAddrPort(b)
			w.must(err)
			if string(b[:n]) != "read" {
				t.Fatalf("the server received %q", b[:n])
			}
			for i := range byte(3) {
				block := bytes.Repeat([]byte{i}, c.block)
				_, err := worker.WriteToUDPAddrPort(block, peer)
				w.must(err)
				w.receivesFrom(client, netip.AddrPortFrom(c.at, transfer), block)
				w.sendTo(client, netip.AddrPortFrom(c.at, transfer), []byte{i})
				n, from, err := worker.ReadFromUDPAddrPort(b)
				w.must(err)
				if from != peer || n != 1 || b[0] != i {
					t.Fatalf("the server received % x from %v, want one from %v", b[:n], from, peer)
				}
			}
			tcp, udp := w.relay.Mapped()
			if c.proxied {
				tcp, udp = w.relay.Proxied()
			}
			if udp.Opened != 1 || udp.Open != 1 || udp.Lost != 0 || tcp.Open != 0 {
				t.Errorf("counted %+v", udp)
			}
		})
	}
}

// serveAt gives a pod the socket of a target.
func (w *world) serveAt(a netip.Addr, port uint16, c *net.UDPConn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.targets["udp "+netip.AddrPortFrom(a, port).String()] = c.LocalAddr().String()
}

// Filtering is by address: a host that is not the target does not reach a client, whichever port it sends from.
func TestAnotherAddressDoesNotReachASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	server := w.serveUDP(port)
	client := w.open(callerAddr)
	w.sendTo(client, netip.AddrPortFrom(mappedAddr, port), []byte("?"))
	b := make([]byte, 10)
	_, peer, err := server.ReadFromUDPAddrPort(b)
	w.must(err)
	// The socket of the session is open to this machine: the forged datagram comes from the port of the target.
	at := server.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	third, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2), Port: int(at)})
	w.must(err)
	defer third.Close()
	_, err = third.WriteToUDPAddrPort([]byte("forged"), peer)
	w.must(err)
	w.until("it is counted", func() bool { return w.udp().Refused[ForeignSource] == 1 })
	_, err = server.WriteToUDPAddrPort([]byte("true"), peer)
	w.must(err)
	w.receivesFrom(client, netip.AddrPortFrom(mappedAddr, port), []byte("true"))
}

// What others send does not keep a session open.
func TestAnotherAddressDoesNotRefreshASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	server := w.serveUDP(port)
	w.sendTo(w.open(callerAddr), netip.AddrPortFrom(mappedAddr, port), []byte("?"))
	_, peer, err := server.ReadFromUDPAddrPort(make([]byte, 10))
	w.must(err)
	third, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 2)})
	w.must(err)
	defer third.Close()
	w.advance(4 * time.Minute)
	_, err = third.WriteToUDPAddrPort([]byte("forged"), peer)
	w.must(err)
	w.until("it is counted", func() bool { return w.udp().Refused[ForeignSource] == 1 })
	w.advance(time.Minute + time.Second)
	w.untilNothingIsLeft()
}

// Ports that a client asks and ports that answer share the socket and the place of the client's port, so neither a client
// nor a target multiplies what the relay holds.
func TestAllPortsOfATargetShareTheSessionOfAClientsPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{Sessions: Quota{All: 1, PerMapping: 1, PerCaller: 1}})
	client := w.open(callerAddr)
	for p := range uint16(20) {
		go echoUDP(w.serveUDP(port + p))
		w.sendTo(client, netip.AddrPortFrom(mappedAddr, port+p), []byte{byte(p)})
		w.receivesFrom(client, netip.AddrPortFrom(mappedAddr, port+p), []byte{byte(p)})
	}
	w.sendTo(w.open(callerAddr), netip.AddrPortFrom(mappedAddr, port), []byte("x"))
	w.untilTold(callerAddr, prohibited)
	if s := w.udp(); s.Open != 1 || s.Opened != 1 || s.Refused[TooMany] != 1 {
		t.Errorf("counted %+v", s)
	}
}

// An ICMP error names the port that the client addressed, even if it has addressed another one since.
func TestAnErrorNamesThePortThatIsClosed(t *testing.T) {
	t.Parallel()
	for _, a := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
		target, err := newUDPTarget(a)
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		server, err := net.ListenUDP("udp", &net.UDPAddr{IP: a.AsSlice()})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		open := server.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		closed := ports.Free(t, 1)[0]
		for _, p := range []uint16{closed, open} {
			if err := target.Send([]byte("hello"), p); err != nil {
				t.Fatalf("%v: port %d: %v", a, p, err)
			}
		}
		if n, _, err := server.ReadFromUDPAddrPort(make([]byte, 10)); n != 5 || err != nil {
			t.Errorf("%v: the open port received %d bytes, %v", a, n, err)
		}
		b, n, p, err := target.Receive()
		if !errors.Is(err, syscall.ECONNREFUSED) || p != closed || n != 5 || b == nil {
			t.Errorf("%v: %d bytes of port %d, %v; want %d", a, n, p, err, closed)
		}
		giveBuffer(b)
	}
}

// RFC 768: a checksum of 0 means none, which IPv6 does not allow.
func TestAChecksumOfUDPIsNeverZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Limits{})
	server := w.serveUDP(port)
	client := w.open(callerAddr6)
	w.sendTo(client, netip.AddrPortFrom(mappedAddr6, port), []byte("?"))
	_, peer, err := server.ReadFromUDPAddrPort(make([]byte, 10))
	w.must(err)
	from := client.LocalAddr().(*net.UDPAddr).AddrPort()
	payload := []byte{0, 0}
	u := []byte{byte(port >> 8), byte(port & 0xff), byte(from.Port() >> 8), byte(from.Port()), 0, 10, 0, 0, 0, 0}
	sum := ^packet.Sum(u, packet.PseudoSum(mappedAddr6, callerAddr6, packet.ProtoUDP, len(u)))
	payload[0], payload[1] = byte(sum>>8), byte(sum) // the rest of the packet sums to its complement
	_, err = server.WriteToUDPAddrPort(payload, peer)
	w.must(err)
	w.receivesFrom(client, netip.AddrPortFrom(mappedAddr6, port), payload)
}
