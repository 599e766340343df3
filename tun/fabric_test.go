package tun

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/relay"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
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
	changes atomic.Int64   // of links, as reported

	mu      sync.Mutex
	arrived [][]byte // packets, at the node
}

// loopbacks counts the loopback networks that tests have taken.
var loopbacks atomic.Uint32

// loopback gives addresses on loopback that no other test uses, to a gateway and its node:
// 127.1.n.1 and 127.1.n.2.
func loopback() (gateway, node netip.Addr) {
	n := byte(1 + loopbacks.Add(1)%250)
	return netip.AddrFrom4([4]byte{127, 1, n, 1}), netip.AddrFrom4([4]byte{127, 1, n, 2})
}

// newKey gives another private key each time.
func newKey() (k device.NoisePrivateKey) {
	binary.BigEndian.PutUint32(k[8:], keys.Add(1))
	return k
}

var keys atomic.Uint32

// newEnd opens a gateway and its node, which takes what arrives from then on.
func newEnd(t testing.TB, seenAs string) *end {
	t.Helper()
	return newEndThatDials(t, seenAs, nil)
}

// newEndThatDials is an end whose gateway connects to pods by dial.
func newEndThatDials(t testing.TB, seenAs string, dial relay.Dialer) *end {
	t.Helper()
	e := &end{private: newKey()}
	gatewayAddress, nodeAddress := loopback()
	var err error
	if e.node, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(nodeAddress, 0))); err != nil {
		t.Fatal(err)
	}
	var taking sync.WaitGroup
	taking.Go(e.take)
	t.Cleanup(func() { e.node.Close(); taking.Wait() })
	overlayPort := e.node.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	e.gateway = netip.AddrPortFrom(gatewayAddress, overlayPort)
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
	if e.fabric, err = Open(gateway.New(table, rand.NewPCG(1, 2)), overlay, Options{Log: logOfFailure(t, e.gateway), Dial: dial, AnnounceMTU: e.adapt, LinksChanged: func() { e.changes.Add(1) }}); err != nil {
		t.Fatal(err)
	}
	e.port = ports.Free(t, 1)[0]
	return e
}

// logOfFailure returns the log of a gateway, which t prints if it fails.
func logOfFailure(t testing.TB, of netip.AddrPort) *slog.Logger {
	t.Helper()
	var out bytes.Buffer // its handler writes one record at a time; the gateway is closed before it is read
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("gateway %v logged:\n%s", of, out.String())
		}
	})
	return slog.New(slog.NewTextHandler(&out, nil))
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

// take keeps the packets that arrive at the node until that is closed.
func (e *end) take() {
	b := make([]byte, 1<<16)
	for {
		n, err := e.node.Read(b)
		if err != nil {
			return
		}
		if _, _, frame, fault := geneve.Decode(b[:n]); fault == geneve.FaultNone && len(frame) > packet.EthernetHeaderLen {
			e.mu.Lock()
			e.arrived = append(e.arrived, bytes.Clone(frame[packet.EthernetHeaderLen:]))
			e.mu.Unlock()
		}
	}
}

// packets gives those that have arrived at the node since the last call.
func (e *end) packets() [][]byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	arrived := e.arrived
	e.arrived = nil
	return arrived
}

// received reports whether a packet with this end has arrived at the node.
func (e *end) received(suffix string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.arrived, func(ip []byte) bool { return bytes.HasSuffix(ip, []byte(suffix)) })
}

// receives waits for a packet with this end.
func (e *end) receives(t *testing.T, suffix string) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%q has arrived", suffix), func() bool { return e.received(suffix) })
}

// joined are two gateways with a link that is up.
func joined(t *testing.T) (a, b *end) {
	t.Helper()
	a, b = newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	t.Cleanup(func() { a.fabric.Close(); b.fabric.Close() })
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, b.link("a-0", a))
	wait.Until(t, "both ends are up", func() bool { return a.isUp() && b.isUp() })
	setLinks(t, a, silent(a.link("b-0", b)))
	setLinks(t, b, silent(b.link("a-0", a)))
	return a, b
}

// linksUp returns how many links are up.
func (e *end) linksUp() (up int) {
	for _, s := range e.fabric.Status() {
		if s.Up {
			up++
		}
	}
	return up
}

// silent is a link that does not initiate, for one that is up: a machine that is too slow to
// answer probes in time would find it down, renew its session, and lose packets.
func silent(link LinkConfig) LinkConfig {
	link.Endpoints = nil
	return link
}

// trio is a gateway and the two of the remote cluster: the one that the traffic of its node goes to, and
// the other.
func trio(t *testing.T) (a, active, standby *end) {
	t.Helper()
	a, b0, b1 := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16"), newEnd(t, "10.72.0.0/16")
	for _, err := range []error{
		a.fabric.SetLinks([]LinkConfig{a.link("b-0", b0), a.link("b-1", b1)}),
		b0.fabric.SetLinks([]LinkConfig{b0.link("a-0", a)}),
		b1.fabric.SetLinks([]LinkConfig{b1.link("a-0", a)}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "both links are up", func() bool {
		s := a.fabric.Status()
		return s[0].Up && s[1].Up && b0.isUp() && b1.isUp()
	})
	setLinks(t, a, silent(a.link("b-0", b0)), silent(a.link("b-1", b1)))
	setLinks(t, b0, silent(b0.link("a-0", a)))
	setLinks(t, b1, silent(b1.link("a-0", a)))
	wait.Until(t, "both links carry traffic", func() bool {
		s := a.fabric.Status()
		return s[0].Active && s[1].Active
	})
	if s := a.fabric.Status(); s[0].RTT == 0 || s[0].AnnouncedMTU != testMTU {
		t.Errorf("status %+v", s)
	}
	wait.Until(t, "a packet crosses a link", func() bool {
		a.send(t, tcpPacket(pod, netip.MustParseAddr("10.71.2.9"), []byte("which"), false))
		return b0.received("which") || b1.received("which")
	})
	if b1.received("which") {
		return a, b1, b0
	}
	return a, b0, b1
}

// activeTo reports whether traffic of a goes to another end.
func (e *end) activeTo(other *end) bool {
	return slices.ContainsFunc(e.fabric.Status(), func(s LinkStatus) bool {
		return s.Active && device.NoisePublicKey(s.RemoteKey) == publicKey(other.private)
	})
}

// Two gateways of the remote cluster are two links. A flow goes through one, and through the other
// when the first goes down; both may send to us all the time.
func TestTrafficMovesToALinkThatIsUp(t *testing.T) {
	t.Parallel()
	a, active, standby := trio(t)
	defer a.fabric.Close()
	to := netip.MustParseAddr("10.71.2.9")
	wait.Until(t, "a packet crosses the active link", func() bool {
		a.send(t, tcpPacket(pod, to, []byte("one"), false))
		return active.received("one")
	})
	// The standby may send as well.
	wait.Until(t, "a packet comes back through the other link", func() bool {
		standby.send(t, tcpPacket(netip.MustParseAddr("10.0.2.9"), netip.MustParseAddr("10.72.1.5"), []byte("back"), false))
		return a.received("back")
	})

	active.fabric.Close()
	wait.Until(t, "a packet crosses the other link", func() bool {
		a.send(t, tcpPacket(pod, to, []byte("two"), false))
		return standby.received("two")
	})
	wait.Until(t, "only the other link is active", func() bool { return a.activeTo(standby) && !a.activeTo(active) })
	standby.fabric.Close()
}

// A gateway that is asked to end says so, and loses nothing: traffic has moved before it
// has ended.
func TestF2_TrafficLeavesAGatewayBeforeItEnds(t *testing.T) {
	t.Parallel()
	a, active, standby := trio(t)
	defer a.fabric.Close()
	defer standby.fabric.Close()
	active.fabric.Leave()
	wait.Until(t, "only the other link is active", func() bool { return a.activeTo(standby) && !a.activeTo(active) })
	// A link that went down would stay so, since its far end answers as one that ends.
	wait.Until(t, "both links are up", func() bool { now := a.fabric.Status(); return now[0].Up && now[1].Up })
	to := netip.MustParseAddr("10.71.2.9")
	a.send(t, tcpPacket(pod, to, []byte("moved"), false))
	standby.receives(t, "moved")
	active.send(t, tcpPacket(netip.MustParseAddr("10.0.2.9"), netip.MustParseAddr("10.72.1.5"), []byte("late"), false))
	a.receives(t, "late") // it still sends
	active.fabric.Close()
}

func TestLinksComeAndGo(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	if err := b.fabric.SetLinks([]LinkConfig{b.link("a-0", a)}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := a.fabric.SetLinks([]LinkConfig{a.link("b-0", b)}); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the link is up", func() bool { return a.fabric.Status()[0].Up })
		if err := a.fabric.SetLinks(nil); err != nil {
			t.Fatal(err)
		}
		if s := a.fabric.Status(); len(s) != 0 {
			t.Fatalf("links left: %+v", s)
		}
	}
}

func TestChangedSettingsReachARunningLink(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	before := a.fabric.Status()[0].LastHandshake
	var left, marked atomic.Bool
	see := func(seen *atomic.Bool, suffix string) Tap {
		return func(_ gateway.Stage, _, _ netip.AddrPort, _, ip []byte) {
			if bytes.HasSuffix(ip, []byte(suffix)) {
				seen.Store(true)
			}
		}
	}
	defer a.fabric.Tap(see(&left, "withdrawn"), gateway.IntoTunnel)()
	defer b.fabric.Tap(see(&marked, "behind it"), gateway.FromTunnel)()

	to := netip.MustParseAddr("10.71.2.9")
	wait.Until(t, "a packet crosses", func() bool {
		a.send(t, tcpPacket(pod, to, []byte("granted"), false))
		return b.received("granted")
	})
	link := silent(a.link("b-0", b))
	link.Allowed = nil // nothing is granted any more
	link.Keepalive = time.Second
	setLinks(t, a, link)
	a.send(t, tcpPacket(pod, to, []byte("withdrawn"), false))
	wait.Until(t, "the packet is handed to WireGuard", left.Load)
	// The host's packets to the far end take the same path, and need no grant.
	l := a.fabric.links.all()[0]
	marker := append(synPacket(l.own, l.far), "behind it"...)
	binary.BigEndian.PutUint16(marker[4:], uint16(len(marker)-packet.IPv6HeaderLen))
	l.tun.inject(&l.tun.Ingress.Counters, marker, ownPacket)
	wait.Until(t, "what was sent behind it has crossed", marked.Load)
	if b.received("withdrawn") {
		t.Error("a packet went where nothing is granted")
	}
	wait.Until(t, "the link is up", func() bool { return a.fabric.Status()[0].Up })
	if s := a.fabric.Status()[0]; s.LastHandshake != before {
		t.Errorf("the link was not the same afterwards: %+v", s)
	}
}

// losesItsSession joins two ends, and replaces the far one by one that has no session and
// does not initiate as soon as replace is called.
func losesItsSession(t *testing.T) (a *end, before LinkStatus, replace func()) {
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	t.Cleanup(func() { a.fabric.Close() })
	back := b.link("a-0", a)
	back.Endpoints = nil
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, back)
	wait.Until(t, "the link is up", a.isUp)
	before = a.fabric.Status()[0]
	b.fabric.Close()
	wait.Until(t, "the link is down", func() bool { return !a.isUp() })
	again := newEnd(t, "10.72.0.0/16")
	t.Cleanup(func() { again.fabric.Close() })
	return a, before, func() { setLinks(t, again, back) }
}

// isUp reports whether the first link is up.
func (e *end) isUp() bool { return e.fabric.Status()[0].Up }

// The near end does not wait until WireGuard gives its own session up, which takes 15 s: it
// forgets the session, and calls anew.
func TestAFarEndThatLostItsSessionIsCalledAgain(t *testing.T) {
	t.Parallel()
	a, before, replace := losesItsSession(t)
	replace()
	wait.Until(t, "the link is up again", a.isUp)
	if now := a.fabric.Status()[0]; now.Sent <= before.Sent || now.Received <= before.Received || now.LastHandshake.Before(before.LastHandshake) {
		t.Errorf("counters went back: %+v, before %+v", now, before)
	}
}

func TestAChangeOfLinksIsReportedWhenItHappens(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	wait.Until(t, "it is reported that the link is up", func() bool { return a.changes.Load() > 0 })
	before := a.changes.Load()
	b.fabric.Close()
	wait.Until(t, "it is reported that the link is down", func() bool { return !a.isUp() && a.changes.Load() > before })
}

// A gateway that knows no peer yet is there for its nodes all the same.
func TestNodesFindAGatewayWithoutLinks(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	answers := func(question string) {
		t.Helper()
		echo := append([]byte{8, 0, 0, 0, 0, 1, 0, 1}, question...)
		binary.BigEndian.PutUint16(echo[2:], ^packet.Sum(echo, 0))
		wait.Until(t, "the gateway's host answers", func() bool {
			a.send(t, ipv4Packet(netip.MustParseAddr("10.80.0.11"), netip.MustParseAddr("10.80.0.1"), packet.ProtoICMP, echo))
			return a.received(question)
		})
	}
	answers("without links")
	a.send(t, tcpPacket(pod, netip.MustParseAddr("10.71.2.9"), []byte("dropped"), false))
	wait.Until(t, "the packet for the remote cluster is counted", func() bool {
		return a.fabric.Counters().Fallback.Dropped(gateway.NoPeer) == 1
	})
	for _, err := range []error{a.fabric.SetLinks([]LinkConfig{a.link("b-0", b)}), b.fabric.SetLinks([]LinkConfig{b.link("a-0", a)})} {
		if err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "the link is up", func() bool { return a.fabric.Status()[0].Up })
	answers("with one")
	if err := a.fabric.SetLinks(nil); err != nil {
		t.Fatal(err)
	}
	answers("without one again")
}
