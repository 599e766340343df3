package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/curve25519"

	"strait.dev/strait/config"
	"strait.dev/strait/control"
	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
	"strait.dev/strait/tun"
)

// side is one cluster's gateway, wired as a gateway does it.
type side struct {
	fabric    *tun.Fabric
	announcer *control.Announcer
	name      string
	private   [32]byte
	node      *net.UDPConn
	overlay   netip.AddrPort
	port      uint16 // of WireGuard

	mu     sync.Mutex
	heard  map[string]control.Announcement // by link
	refuse error
}

// sides counts them: each has addresses that no other test uses.
var sides atomic.Uint32

// newSide opens a gateway with one node, on 127.2.n.1 and 127.2.n.2.
func newSide(t *testing.T, name string) *side {
	t.Helper()
	n := byte(1 + sides.Add(1)%250)
	s := &side{name: name, private: [32]byte(bytes.Repeat([]byte{n}, 32)), heard: make(map[string]control.Announcement)}
	underlay := netip.AddrFrom4([4]byte{127, 2, n, 2})
	var err error
	if s.node, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(underlay, 0))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.node.Close() })
	s.overlay = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 2, n, 1}), s.node.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	overlay, err := tun.OpenOverlay(tun.OverlayConfig{Geneve: s.overlay})
	if err != nil {
		t.Fatal(err)
	}
	prefix := netip.MustParsePrefix
	table, err := gateway.NewTable(&config.Gateway{
		Cluster: name,
		Overlay: config.Overlay{
			Addresses: []netip.Addr{netip.MustParseAddr("10.80.0.1")},
			Nodes: []config.Node{{
				Name: "node-1", Underlay: underlay, VNI: 101,
				Addresses: []netip.Addr{netip.MustParseAddr("10.80.0.11")}, Prefixes: []netip.Prefix{prefix("10.0.0.0/16")},
			}},
		},
		Local:  config.Local{Prefixes: []netip.Prefix{prefix("10.0.0.0/16")}},
		Remote: config.Remote{Prefixes: []config.RemotePrefix{{CIDR: prefix("10.0.0.0/16"), SeenAs: prefix("10.71.0.0/16")}}},
	}, gateway.MTUs{Overlay: 1450, Tunnel: 1420}, overlay.Handle)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	if s.fabric, err = tun.Open(gateway.New(table, rand.NewPCG(1, 2)), overlay, tun.Options{Log: log}); err != nil {
		t.Fatal(err)
	}
	s.port = ports.Free(t, 1)[0]
	s.serve(t, log)
	return s
}

// serve joins the control channel to the fabric, until the test ends.
func (s *side) serve(t *testing.T, log *slog.Logger) {
	t.Helper()
	listener, err := s.fabric.Streams.Listen(control.Port)
	if err != nil {
		t.Fatal(err)
	}
	identify := func(c net.Conn) (control.Link, bool) {
		id, ok := s.fabric.Streams.LinkOf(c)
		return control.Link(id), ok
	}
	s.announcer = control.NewAnnouncer(control.AnnouncerOptions{
		Up: func() (up []control.Link) {
			for _, l := range s.fabric.LinksUp() {
				up = append(up, control.Link(l))
			}
			return up
		},
		Dial: func(ctx context.Context, l control.Link) (net.Conn, error) {
			return s.fabric.Streams.Dial(ctx, l.OwnKey, l.RemoteKey, control.Port)
		},
		Jitter: rand.Float64,
		Log:    log,
	})
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { s.announcer.Run(ctx) })
	running.Go(func() {
		if err := control.Serve(listener, identify, s.accept, nil, log); err != nil {
			t.Errorf("the server of %s ended with %v", s.name, err)
		}
	})
	t.Cleanup(func() {
		cancel()
		s.fabric.Close() // and the listener
		running.Wait()
	})
}

func (s *side) accept(l control.Link, a control.Announcement) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[l.Name] = a
	return s.refuse
}

func (s *side) heardOver(link string) control.Announcement {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[link]
}

func (s *side) public() (public config.Key) {
	curve25519.ScalarBaseMult((*[32]byte)(&public), &s.private)
	return public
}

func (s *side) join(t *testing.T, to *side) {
	t.Helper()
	err := s.fabric.SetLinks([]tun.LinkConfig{{
		Name: to.name + "-0", PrivateKey: s.private, PublicKey: [32]byte(to.public()), ListenPort: s.port,
		Endpoints: []string{fmt.Sprintf("127.0.0.1:%d", to.port)}, Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")},
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *side) announce(t *testing.T, prefix string) {
	t.Helper()
	name := s.name + "-0"
	err := s.announcer.Set(control.Announcement{
		Revision: 1, Cluster: s.name, Gateway: name, Prefixes: []netip.Prefix{netip.MustParsePrefix(prefix)},
		Gateways: []control.Gateway{{Name: name, PublicKeys: []config.Key{s.public()}}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *side) result() control.Result {
	if r := s.announcer.Results(); len(r) == 1 {
		return r[0]
	}
	return control.Result{}
}

// A changed prefix of one cluster arrives at the other through the tunnel alone, and
// what the other does not accept is known here with its reason.
func TestAnnouncementsCrossTheTunnelBothWays(t *testing.T) {
	t.Parallel()
	a, b := newSide(t, "a"), newSide(t, "b")
	a.join(t, b)
	b.join(t, a)
	a.announce(t, "10.0.0.0/16")
	b.announce(t, "10.1.0.0/16")
	wait.Until(t, "both announcements are current", func() bool { return a.result().Current && b.result().Current })
	if got := b.heardOver("a-0"); got.Cluster != "a" || got.Prefixes[0].String() != "10.0.0.0/16" || got.Gateways[0].PublicKeys[0] != a.public() {
		t.Errorf("b received %+v", got)
	}
	if got := a.heardOver("b-0"); got.Cluster != "b" || got.Prefixes[0].String() != "10.1.0.0/16" {
		t.Errorf("a received %+v", got)
	}
	a.announce(t, "10.2.0.0/16")
	wait.Until(t, "the change has arrived", func() bool { return b.heardOver("a-0").Prefixes[0].String() == "10.2.0.0/16" })

	b.mu.Lock()
	b.refuse = errors.New("10.3.0.0/16 was not granted")
	b.mu.Unlock()
	a.announce(t, "10.3.0.0/16")
	wait.Until(t, "the refusal is known", func() bool { return a.result().Refused == "10.3.0.0/16 was not granted" })
	if r := a.result(); r.Current || r.Link.Name != "b-0" || r.Link.RemoteKey != b.public() {
		t.Errorf("%+v", r)
	}
}

// A pod finds the channel's port closed: the gateway answers that it is unreachable.
func TestPodsDoNotReachTheChannel(t *testing.T) {
	t.Parallel()
	a, b := newSide(t, "a"), newSide(t, "b")
	a.join(t, b)
	b.join(t, a)
	a.announce(t, "10.0.0.0/16")
	wait.Until(t, "the channel works", func() bool { return a.result().Current })

	pod, host := netip.MustParseAddr("10.0.1.5"), netip.MustParseAddr("10.80.0.1")
	if _, err := a.node.WriteToUDPAddrPort(synFrame(pod, host), a.overlay); err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, 2048)
	n, err := a.node.Read(frame)
	if err != nil {
		t.Fatal(err)
	}
	ip := frame[geneve.HeaderLen+packet.EthernetHeaderLen : n]
	const protocol, unreachable, port = 9, 3, 3 // RFC 791 section 3.1, RFC 792
	if icmp := ip[packet.IPv4HeaderLen:]; ip[protocol] != packet.ProtoICMP || icmp[0] != unreachable || icmp[1] != port {
		t.Errorf("answered with protocol %d: % x", ip[protocol], icmp[:8])
	}
}

// synFrame is a pod's TCP SYN to the channel's port, as its node sends it.
func synFrame(pod, host netip.Addr) []byte {
	tcp := make([]byte, packet.TCPHeaderLen)
	tcp[0], tcp[2], tcp[3] = 0x9c, control.Port>>8, control.Port&0xff
	tcp[12], tcp[13] = 5<<4, 2
	sum := ^packet.Sum(tcp, packet.PseudoSum(pod, host, packet.ProtoTCP, len(tcp)))
	tcp[16], tcp[17] = byte(sum>>8), byte(sum)

	ip := make([]byte, packet.IPv4HeaderLen)
	ip[0], ip[3], ip[8], ip[9] = 0x45, packet.IPv4HeaderLen+packet.TCPHeaderLen, 64, packet.ProtoTCP
	copy(ip[12:], pod.AsSlice())
	copy(ip[16:], host.AsSlice())
	sum = ^packet.Sum(ip, 0)
	ip[10], ip[11] = byte(sum>>8), byte(sum)

	frame := make([]byte, gateway.EncapLen)
	geneve.Put(frame, 101)
	packet.PutEthernet(frame[geneve.HeaderLen:], packet.MACOf(host), packet.MACOf(netip.MustParseAddr("10.80.0.11")), packet.EtherTypeIPv4)
	return append(append(frame, ip...), tcp...)
}
