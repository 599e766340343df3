package tun

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/relay"
	"strait.dev/strait/test/wait"
)

// give changes an end's configuration and puts it in force.
func (e *end) give(t testing.TB, change func(c *config.Gateway)) {
	t.Helper()
	change(e.config)
	table, err := gateway.NewTable(e.config, gateway.MTUs{Overlay: 1450, Tunnel: testMTU}, e.fabric.Overlay.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.fabric.Relay.SetMappings(e.config.Mappings); err != nil {
		t.Fatal(err)
	}
	e.fabric.Gateway.SetTable(table)
	if err := e.fabric.Refresh(); err != nil {
		t.Fatal(err)
	}
}

// A pod of a reaches what an external address of b stands for, and gets its answers, and
// nothing any more after the mapping is removed.
// loopbackTarget is a target with one port.
type loopbackTarget struct{ *net.UDPConn }

func (t loopbackTarget) Send(b []byte, _ uint16) error {
	_, err := t.Write(b)
	return err
}

func (t loopbackTarget) Receive() (b *relay.Buffer, n int, port uint16, err error) {
	b = new(relay.Buffer)
	if n, err = t.Read(b[:]); err != nil {
		return nil, 0, 0, err
	}
	return b, n, 53, nil
}

func TestAPodReachesAMappedAddressOfTheOtherCluster(t *testing.T) {
	t.Parallel()
	server, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := server.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(append([]byte("you said "), b[:n]...), from)
		}
	}()

	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	t.Cleanup(func() { a.fabric.Close(); b.fabric.Close() })
	// A target on loopback, which no mapping may name, stands for one elsewhere.
	host := b.fabric.host
	b.fabric.Relay = relay.New(relay.Config{Stack: host.stack, NIC: hostNIC, Target: func(netip.Addr) (relay.Target, error) {
		c, err := net.DialUDP("udp4", nil, server.LocalAddr().(*net.UDPAddr))
		return loopbackTarget{c}, err
	}, Alive: func(context.Context, netip.Addr, uint16) bool { return true }})
	host.relay = b.fabric.Relay
	a.give(t, func(c *config.Gateway) {
		c.Remote.Prefixes = append(c.Remote.Prefixes, config.RemotePrefix{CIDR: netip.MustParsePrefix("10.70.0.0/16"), SeenAs: netip.MustParsePrefix("10.73.0.0/16")})
	})
	b.give(t, func(c *config.Gateway) {
		c.Mappings = []config.Mapping{{External: netip.MustParseAddr("10.70.1.9"), Target: netip.MustParseAddr("192.0.2.77")}}
	})
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, b.link("a-0", a))
	wait.Until(t, "the link is up", func() bool { return a.fabric.Status()[0].Up && b.fabric.Status()[0].Up })
	setLinks(t, a, silent(a.link("b-0", b)))
	setLinks(t, b, silent(b.link("a-0", a)))

	mapped := netip.MustParseAddr("10.73.1.9") // as a sees it
	udp := func(text string) []byte {
		u := binary.BigEndian.AppendUint16([]byte{0x12, 0x34, 0, 53}, uint16(packet.UDPHeaderLen+len(text)))
		return ipv4Packet(pod, mapped, packet.ProtoUDP, append(append(u, 0, 0), text...))
	}
	wait.Until(t, "there is an answer", func() bool {
		a.send(t, udp("hello"))
		return a.received("you said hello")
	})
	echo := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, "are you up?"...)
	binary.BigEndian.PutUint16(echo[2:], ^packet.Sum(echo, 0))
	wait.Until(t, "there is an echo reply", func() bool {
		a.send(t, ipv4Packet(pod, mapped, packet.ProtoICMP, slices.Clone(echo)))
		return a.received("are you up?")
	})
	if _, udp := b.fabric.Relay.Mapped(); udp.Opened != 1 || b.fabric.Relay.Echo().Answered == 0 {
		t.Errorf("b counted %+v, %+v", udp, b.fabric.Relay.Echo())
	}

	b.give(t, func(c *config.Gateway) { c.Mappings = nil })
	a.send(t, udp("still there?"))
	a.receives(t, "still there?") // quoted by an ICMP error, or in an answer
	if a.received("you said still there?") {
		t.Error("an answer from an address that is not mapped any more")
	}
	if _, udp := b.fabric.Relay.Mapped(); udp.Open != 0 {
		t.Errorf("b still has %+v", udp)
	}
}

// What callers may make the host hold is bounded by the stack's options.
func TestTheHostStackHasItsLimits(t *testing.T) {
	t.Parallel()
	a := newEnd(t, "10.71.0.0/16")
	defer a.fabric.Close()
	s := a.fabric.host.stack
	if rate, burst := s.ICMPLimit(), s.ICMPBurst(); rate != icmpRate || burst != icmpBurst {
		t.Errorf("%v ICMP messages a second, %d at once", rate, burst)
	}
	var receive tcpip.TCPReceiveBufferSizeRangeOption
	var send tcpip.TCPSendBufferSizeRangeOption
	for _, option := range []tcpip.GettableTransportProtocolOption{&receive, &send} {
		if err := s.TransportProtocolOption(tcp.ProtocolNumber, option); err != nil {
			t.Fatal(err)
		}
	}
	if receive.Max != bufferMost || send.Max != bufferMost || receive.Default != bufferDefault || send.Default != bufferDefault {
		t.Errorf("receive buffers %+v, send buffers %+v", receive, send)
	}
}

// The flows of a gateway that has died reach another one, which has no state of their connections: they
// end at once, and not by a timeout.
func TestASegmentOfAnotherGatewaysConnectionIsReset(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	a.give(t, func(c *config.Gateway) {
		c.Remote.Prefixes = append(c.Remote.Prefixes, config.RemotePrefix{CIDR: netip.MustParsePrefix("10.70.0.0/16"), SeenAs: netip.MustParsePrefix("10.73.0.0/16")})
	})
	b.give(t, func(c *config.Gateway) {
		c.Mappings = []config.Mapping{{External: netip.MustParseAddr("10.70.1.9"), Target: netip.MustParseAddr("192.0.2.77")}}
	})
	mapped := netip.MustParseAddr("10.73.1.9")
	wait.Until(t, "the segment is answered with a reset", func() bool {
		a.send(t, tcpPacket(pod, mapped, []byte("in the middle of a connection"), false))
		return slices.ContainsFunc(a.packets(), func(ip []byte) bool {
			return ip[9] == packet.ProtoTCP && netip.AddrFrom4([4]byte(ip[12:])) == mapped && ip[packet.IPv4HeaderLen+13]&0x04 != 0
		})
	})
}
