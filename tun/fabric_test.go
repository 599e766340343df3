package tun

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// end is one gateway with one node, on loopback: the node at its own address,
// both at the same UDP port.
type end struct {
	fabric  *Fabric
	config  *config.Gateway
	private device.NoisePrivateKey
	node    *net.UDPConn
	gateway netip.AddrPort // of the overlay
	port    uint16         // of WireGuard
}

// newEnd opens a gateway whose underlay addresses are 127.n.0.1 and 127.n.0.2.
func newEnd(t *testing.T, n byte, seenAs string) *end {
	t.Helper()
	e := &end{private: device.NoisePrivateKey(bytes.Repeat([]byte{n * 8}, 32))}
	nodeAddress := netip.AddrFrom4([4]byte{127, n, 0, 2})
	var err error
	if e.node, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(nodeAddress, 0))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.node.Close() })
	overlayPort := e.node.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	e.gateway = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, n, 0, 1}), overlayPort)
	overlay, err := OpenOverlay(OverlayConfig{Geneve: e.gateway})
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig()
	e.config = c
	c.Overlay.Nodes[0].Underlay = nodeAddress
	c.Overlay.Addresses = append(c.Overlay.Addresses, netip.MustParseAddr("fd00:80::1"))
	c.Overlay.Nodes[0].Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("fd00:10::/48")}
	remote6 := netip.MustParsePrefix("fd00:20::/48")
	c.Remote.Prefixes = []config.RemotePrefix{
		{CIDR: netip.MustParsePrefix("10.0.0.0/16"), SeenAs: netip.MustParsePrefix(seenAs)}, {CIDR: remote6, SeenAs: remote6},
	}
	table, err := gateway.NewTable(c, gateway.MTUs{Overlay: 1450, Tunnel: testMTU}, overlay.Handle)
	if err != nil {
		t.Fatal(err)
	}
	if e.fabric, err = Open(gateway.New(table), overlay, Options{Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	e.port = ports.Free(t, 1)[0]
	return e
}

// link is this end's side of a link to another.
func (e *end) link(name string, to *end) LinkConfig {
	return LinkConfig{
		Name: name, PrivateKey: e.private, PublicKey: publicKey(to.private), ListenPort: e.port,
		Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", to.port)},
		Allowed: []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.70.0.0/16"),
			netip.MustParsePrefix("fd00:20::/48"), netip.MustParsePrefix("fd00:80::/48"),
		},
	}
}

// send makes the node send a packet from a pod.
func (e *end) send(t *testing.T, ip []byte) {
	t.Helper()
	f := &fixture{node: e.node}
	if _, err := e.node.WriteToUDPAddrPort(f.frame(ip), e.gateway); err != nil {
		t.Fatal(err)
	}
}

// receives reports whether a packet with this end arrives at the node soon.
func (e *end) receives(t *testing.T, suffix string) bool {
	t.Helper()
	b := make([]byte, 2048)
	for {
		if err := e.node.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := e.node.Read(b)
		if err != nil {
			return false
		}
		_, _, frame, fault := geneve.Decode(b[:n])
		if fault == geneve.FaultNone && len(frame) > packet.EthernetHeaderLen && bytes.HasSuffix(frame, []byte(suffix)) {
			return true
		}
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// trio is a gateway and the two of the remote cluster, by whether its traffic goes there.
func trio(t *testing.T) (a, active, standby *end) {
	t.Helper()
	a, b0, b1 := newEnd(t, 1, "10.71.0.0/16"), newEnd(t, 2, "10.72.0.0/16"), newEnd(t, 3, "10.72.0.0/16")
	for _, err := range []error{
		a.fabric.SetLinks([]LinkConfig{a.link("b-0", b0), a.link("b-1", b1)}),
		b0.fabric.SetLinks([]LinkConfig{b0.link("a-0", a)}),
		b1.fabric.SetLinks([]LinkConfig{b1.link("a-0", a)}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both links up", func() bool {
		s := a.fabric.Status()
		return s[0].Up && s[1].Up
	})
	s := a.fabric.Status()
	if s[0].Active == s[1].Active || s[0].RTT == 0 || s[0].AnnouncedMTU != testMTU {
		t.Errorf("status %+v", s)
	}
	if s[1].Active { // it was up before the first
		return a, b1, b0
	}
	return a, b0, b1
}

// Two gateways of the remote cluster are two links. Traffic goes through one, and
// through the other when the first goes down; both may send to us all the time.
func TestTrafficMovesToALinkThatIsUp(t *testing.T) {
	a, active, standby := trio(t)
	defer a.fabric.Close()
	before := a.fabric.Status()
	to := netip.MustParseAddr("10.71.2.9")
	eventually(t, "a packet through the active link", func() bool {
		a.send(t, tcpPacket(pod, to, []byte("one"), false))
		return active.receives(t, "one")
	})
	// The standby may send as well.
	eventually(t, "a packet back through the other link", func() bool {
		standby.send(t, tcpPacket(netip.MustParseAddr("10.0.2.9"), netip.MustParseAddr("10.72.1.5"), []byte("back"), false))
		return a.receives(t, "back")
	})

	active.fabric.Close()
	eventually(t, "a packet through the other link", func() bool {
		a.send(t, tcpPacket(pod, to, []byte("two"), false))
		return standby.receives(t, "two")
	})
	if now := a.fabric.Status(); now[0].Active == before[0].Active || now[1].Active == before[1].Active {
		t.Errorf("status after the active one went down: %+v", now)
	}
	standby.fabric.Close()
}

// A gateway that is asked to end says so, and loses nothing: traffic has moved before it
// has ended.
func TestF2_TrafficLeavesAGatewayBeforeItEnds(t *testing.T) {
	a, active, standby := trio(t)
	defer a.fabric.Close()
	defer standby.fabric.Close()
	before := a.fabric.Status()
	active.fabric.Leave()
	eventually(t, "the other link to be active", func() bool {
		now := a.fabric.Status()
		return now[0].Active != before[0].Active && now[1].Active != before[1].Active
	})
	if now := a.fabric.Status(); !now[0].Up || !now[1].Up {
		t.Errorf("traffic has moved because a link went down: %+v", now)
	}
	to := netip.MustParseAddr("10.71.2.9")
	a.send(t, tcpPacket(pod, to, []byte("moved"), false))
	if !standby.receives(t, "moved") {
		t.Error("a packet is lost")
	}
	active.send(t, tcpPacket(netip.MustParseAddr("10.0.2.9"), netip.MustParseAddr("10.72.1.5"), []byte("late"), false))
	if !a.receives(t, "late") {
		t.Error("what the gateway still sends is lost")
	}
	active.fabric.Close()
}

func TestLinksComeAndGo(t *testing.T) {
	a, b := newEnd(t, 1, "10.71.0.0/16"), newEnd(t, 2, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	if err := b.fabric.SetLinks([]LinkConfig{b.link("a-0", a)}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.fabric.SetLinks([]LinkConfig{a.link("b-0", b)}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the link up", func() bool { return a.fabric.Status()[0].Up })
		if err := a.fabric.SetLinks(nil); err != nil {
			t.Fatal(err)
		}
		if s := a.fabric.Status(); len(s) != 0 {
			t.Fatalf("links left: %+v", s)
		}
		// WireGuard takes initiations of one peer that come within 20 ms for a
		// flood, and would let us wait for 5 s.
		time.Sleep(50 * time.Millisecond)
	}
}

func TestChangedSettingsReachARunningLink(t *testing.T) {
	a, b := newEnd(t, 1, "10.71.0.0/16"), newEnd(t, 2, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	link := a.link("b-0", b)
	for _, err := range []error{a.fabric.SetLinks([]LinkConfig{link}), b.fabric.SetLinks([]LinkConfig{b.link("a-0", a)})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the link up", func() bool { return a.fabric.Status()[0].Up })
	before := a.fabric.Status()[0].LastHandshake

	to := netip.MustParseAddr("10.71.2.9")
	eventually(t, "a packet across", func() bool {
		a.send(t, tcpPacket(pod, to, []byte("granted"), false))
		return b.receives(t, "granted")
	})
	link.Allowed = nil // nothing is granted any more
	link.Keepalive = time.Second
	if err := a.fabric.SetLinks([]LinkConfig{link}); err != nil {
		t.Fatal(err)
	}
	a.send(t, tcpPacket(pod, to, []byte("withdrawn"), false))
	if b.receives(t, "withdrawn") {
		t.Error("a packet went where nothing is granted")
	}
	if s := a.fabric.Status()[0]; !s.Up || s.LastHandshake != before {
		t.Errorf("the link was not the same afterwards: %+v", s)
	}
}

// The far end is replaced by one that has no session and calls nobody: the near end does
// not wait until WireGuard gives its own session up, which takes 15 s.
func TestAFarEndThatLostItsSessionIsCalledAgain(t *testing.T) {
	a, b := newEnd(t, 1, "10.71.0.0/16"), newEnd(t, 2, "10.72.0.0/16")
	defer a.fabric.Close()
	back := b.link("a-0", a)
	back.Endpoints = nil
	for _, err := range []error{a.fabric.SetLinks([]LinkConfig{a.link("b-0", b)}), b.fabric.SetLinks([]LinkConfig{back})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	isUp := func() bool { return a.fabric.Status()[0].Up }
	eventually(t, "the link up", isUp)
	before := a.fabric.Status()[0]
	b.fabric.Close()
	eventually(t, "the link down", func() bool { return !isUp() })

	again := newEnd(t, 2, "10.72.0.0/16")
	defer again.fabric.Close()
	back.ListenPort = b.port
	begun := time.Now()
	if err := again.fabric.SetLinks([]LinkConfig{back}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the link up again", isUp)
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the link was up again after %v", took)
	}
	if now := a.fabric.Status()[0]; now.Sent <= before.Sent || now.Received <= before.Received || now.LastHandshake.Before(before.LastHandshake) {
		t.Errorf("counters went back: %+v, before %+v", now, before)
	}
}

// A gateway that knows no peer yet is there for its nodes all the same.
func TestNodesFindAGatewayWithoutLinks(t *testing.T) {
	a, b := newEnd(t, 1, "10.71.0.0/16"), newEnd(t, 2, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	answers := func() {
		t.Helper()
		echo := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, "question"...)
		binary.BigEndian.PutUint16(echo[2:], ^packet.Sum(echo, 0))
		eventually(t, "an answer of the gateway's host", func() bool {
			a.send(t, ipv4Packet(netip.MustParseAddr("10.80.0.11"), netip.MustParseAddr("10.80.0.1"), packet.ProtoICMP, echo))
			return a.receives(t, "question")
		})
	}
	answers()
	a.send(t, tcpPacket(pod, netip.MustParseAddr("10.71.2.9"), []byte("nobody"), false))
	eventually(t, "the packet for the remote cluster to be counted", func() bool {
		return a.fabric.Attendant().Dropped(gateway.NoPeer) == 1
	})
	for _, err := range []error{a.fabric.SetLinks([]LinkConfig{a.link("b-0", b)}), b.fabric.SetLinks([]LinkConfig{b.link("a-0", a)})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the link up", func() bool { return a.fabric.Status()[0].Up })
	answers()
	if err := a.fabric.SetLinks(nil); err != nil {
		t.Fatal(err)
	}
	answers()
}
