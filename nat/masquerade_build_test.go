package nat_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// epoch is when tests begin. Their time is virtual.
var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	fin = 0x01
	syn = 0x02
	rst = 0x04
	psh = 0x08
	ack = 0x10
)

// family is the cast of a test, in IPv4 or IPv6.
type family struct {
	name                string
	inside, inside2     netip.Addr
	remote, remote2     netip.Addr
	external, external2 netip.Addr
	icmp                uint8
}

var families = []family{
	{
		"IPv4", netip.MustParseAddr("203.0.113.5"), netip.MustParseAddr("203.0.113.6"),
		netip.MustParseAddr("10.71.2.9"), netip.MustParseAddr("10.71.2.10"),
		netip.MustParseAddr("10.70.0.1"), netip.MustParseAddr("10.70.0.2"), packet.ProtoICMP,
	},
	{
		"IPv6", netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("2001:db8::6"),
		netip.MustParseAddr("fd00:71::2:9"), netip.MustParseAddr("fd00:71::2:10"),
		netip.MustParseAddr("fd00:70::1"), netip.MustParseAddr("fd00:70::2"), packet.ProtoICMPv6,
	},
}

// inEachFamily runs a test in IPv4 and in IPv6, with a masquerade of its own that
// has one external address and room.
func inEachFamily(t *testing.T, test func(t *testing.T, f family, m *masquerade)) {
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) { test(t, f, newMasquerade(t, 1000, 500, f.external)) })
	}
}

// protos are the protocols of a family, and ICMP among them.
func (f family) protos() []uint8 { return []uint8{packet.ProtoTCP, packet.ProtoUDP, f.icmp} }

// to is a remote's endpoint as a protocol has it: a query of ICMP has no port there.
func (f family) to(proto uint8, addr netip.Addr, port uint16) nat.Endpoint {
	if proto == f.icmp {
		port = 0
	}
	return nat.Endpoint{Addr: addr, Port: port}
}

func end(addr netip.Addr, port uint16) nat.Endpoint { return nat.Endpoint{Addr: addr, Port: port} }

// masquerade is one with a clock.
type masquerade struct {
	*nat.Masquerade
	t   testing.TB
	now time.Time
}

func newMasquerade(t testing.TB, flows, perSource int, external ...netip.Addr) *masquerade {
	m := &masquerade{t: t, now: epoch, Masquerade: nat.NewMasquerade(nat.MasqueradeConfig{
		Flows: flows, FlowsPerSource: perSource, Random: rand.NewPCG(4787, 5382), Epoch: epoch,
	})}
	m.Use(external)
	return m
}

// pass lets time pass, and what has timed out end.
func (m *masquerade) pass(d time.Duration) {
	m.now = m.now.Add(d)
	m.Expire(m.now)
}

// origin is what the packets of a test come from if it does not matter.
const origin = 101

// out sends a packet out, which has to be translated.
func (m *masquerade) out(proto uint8, inside, remote nat.Endpoint, flags uint8) nat.Endpoint {
	m.t.Helper()
	external, o := m.Out(proto, inside, remote, origin, flags, m.now)
	if o != nat.Translated {
		m.t.Fatalf("out, protocol %d, %v -> %v: outcome %d", proto, inside, remote, o)
	}
	return external
}

// in lets a packet in, which has to be translated, and gives the inside.
func (m *masquerade) in(proto uint8, remote, external nat.Endpoint, flags uint8) nat.Endpoint {
	m.t.Helper()
	inside, from, o := m.In(proto, remote, external, flags, m.now)
	if o != nat.Translated || from != origin {
		m.t.Fatalf("in, protocol %d, %v -> %v: outcome %d, origin %d", proto, remote, external, o, from)
	}
	return inside
}

// refuses has a packet that must not come in.
func (m *masquerade) refuses(proto uint8, remote, external nat.Endpoint, flags uint8) {
	m.t.Helper()
	if inside, _, o := m.In(proto, remote, external, flags, m.now); o != nat.Unknown || inside.Addr.IsValid() {
		m.t.Fatalf("in, protocol %d, %v -> %v: outcome %d, to %v", proto, remote, external, o, inside)
	}
}

// open opens a TCP connection.
func (m *masquerade) open(inside, remote nat.Endpoint) (external nat.Endpoint) {
	m.t.Helper()
	external = m.out(packet.ProtoTCP, inside, remote, syn)
	m.in(packet.ProtoTCP, remote, external, syn|ack)
	m.out(packet.ProtoTCP, inside, remote, ack)
	return external
}

func (m *masquerade) flows() int { return m.Stats(m.now).Flows }

func (m *masquerade) wantFlows(n int) {
	m.t.Helper()
	if got := m.flows(); got != n {
		m.t.Fatalf("%d flows, want %d", got, n)
	}
}

// lastsFor checks that something is there after d, and is not soon after more than d.
func (m *masquerade) lastsFor(d time.Duration) {
	m.t.Helper()
	before := m.flows()
	m.pass(d)
	m.wantFlows(before)
	m.pass(2 * time.Second)
	m.wantFlows(before - 1)
}
