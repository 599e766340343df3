package tun

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/wait"
)

// The far end decides how often it sends claims, and how long they are.
func TestAClaimKeepsABoundedPartAndOnlyTheFirstTakesEffectAtOnce(t *testing.T) {
	t.Parallel()
	p, l := &prober{changed: make(chan struct{}, 1)}, linkUpFor("b-0", "", 0, time.Time{})
	own := netip.MustParseAddr("10.70.0.1")
	for i, b := range [][]byte{append(link.Claim{own}.Append(nil), make([]byte, packet.MaxLen)...), link.Claim(nil).Append(nil), []byte("no claim")} {
		p.receiveClaim(b, l)
		if n := len(*l.claim.Load()); n > link.MaxClaim {
			t.Errorf("claim %d: %d bytes are kept", i, n)
		}
		if got := slices.Equal(l.claims(), link.Claim{own}); got != (i == 0) {
			t.Errorf("claim %d: claimed %v", i, l.claims())
		}
		if told := len(p.changed); told != 1 {
			t.Errorf("claim %d: told %d times", i, told)
		}
	}
	<-p.changed
	if p.receiveClaim(link.Claim{own}.Append(nil), l); len(p.changed) != 0 {
		t.Error("a later claim takes effect at once")
	}
}

func TestTheOwnerOfAnAddressStaysWhileItsLinkIsUp(t *testing.T) {
	t.Parallel()
	a, b := netip.MustParseAddr("10.70.0.1"), netip.MustParseAddr("10.70.0.2")
	d := &director{gateway: gateway.New(new(gateway.Table), rand.NewPCG(1, 2))}
	claims := func(name string, fit link.Fitness, claims ...netip.Addr) *member {
		l := linkUpFor(name, "", 0, time.Time{})
		claim := link.Claim(claims).Append(nil)
		l.claim.Store(&claim)
		return &member{links: []*Link{l}, link: l, fit: fit}
	}
	for _, c := range []struct {
		when    string
		members []*member
		want    map[netip.Addr]string // empty = not reachable
	}{
		{"one remote gateway", []*member{claims("x", link.Up, a)}, nil},
		{"each claims its own", []*member{claims("x", link.Up, a), claims("y", link.Up, b)}, map[netip.Addr]string{a: "x", b: "y"}},
		{"another claims it too, and comes first", []*member{claims("z", link.Up, a), claims("x", link.Up, a), claims("y", link.Up, b)}, map[netip.Addr]string{a: "x", b: "y"}},
		{"the owner is down", []*member{claims("z", link.Up, a), claims("x", link.Down, a), claims("y", link.Up, b)}, map[netip.Addr]string{a: "z", b: "y"}},
		{"it is up again", []*member{claims("z", link.Up, a), claims("x", link.Up, a), claims("y", link.Up, b)}, map[netip.Addr]string{a: "z", b: "y"}},
		{"one that ends still has its flows", []*member{claims("z", link.Ending, a), claims("y", link.Up, b)}, map[netip.Addr]string{a: "z", b: "y"}},
		{"no claimant is up", []*member{claims("z", link.Down, a), claims("x", link.Down, a), claims("y", link.Up, b)}, map[netip.Addr]string{a: "", b: "y"}},
		{"claims are withdrawn", []*member{claims("z", link.Up), claims("y", link.Up, b)}, map[netip.Addr]string{b: "y"}},
		{"gateways are removed", []*member{claims("z", link.Up)}, nil},
	} {
		d.pin(c.members)
		for _, address := range []netip.Addr{a, b} {
			want, wanted := c.want[address]
			owner, owned := d.gateway.Owner(address)
			got, _ := owner.(*Device)
			var device *Device
			for _, m := range c.members {
				if want == m.link.wg.settings.Load().Name {
					device = m.link.tun
				}
			}
			if owned != wanted || got != device {
				t.Errorf("%s: %v is owned by %v, %t; want %q", c.when, address, got, owned, want)
			}
		}
	}
}

// gatewayPair is a cluster with two gateways that masquerade, each by its own address, and a gateway of
// the other cluster with a link to each.
type gatewayPair struct {
	*fan
	external []netip.Addr // of the far gateways, as they are known there
}

var masqueraded = netip.MustParseAddr("203.0.113.7")

func newGatewayPair(t *testing.T) *gatewayPair {
	t.Helper()
	p := &gatewayPair{fan: newFan(t, 2, 64)}
	for i, b := range p.far {
		external := netip.AddrFrom4([4]byte{10, 70, 0, byte(10 + i)})
		p.external = append(p.external, external)
		flows := gateway.NewFlows(gateway.FlowsConfig{Flows: 100, FlowsPerSource: 100, Random: rand.NewPCG(uint64(i), 1), Epoch: time.Now()})
		flows.Use([]netip.Addr{external})
		b.fabric.Gateway.SetFlows(flows)
		b.give(t, func(c *config.Gateway) {
			c.Overlay.ExternalAddresses = []netip.Addr{external}
			c.Masquerade.Sources = []netip.Prefix{netip.PrefixFrom(masqueraded, 32)}
		})
	}
	p.give(t, func(c *config.Gateway) {
		c.Remote.Prefixes = append(c.Remote.Prefixes, config.RemotePrefix{
			CIDR: netip.MustParsePrefix("10.70.0.0/16"), SeenAs: netip.MustParsePrefix("10.73.0.0/16"),
		})
	})
	for _, b := range append([]*end{p.end}, p.far...) {
		wait.Until(t, "the gateways have told each other their addresses", func() bool {
			b.claim()
			p.elect()
			for i, external := range p.external {
				if owner, owned := p.fabric.Gateway.Owner(external); !owned || owner != gateway.Exit(p.fabric.links.all()[i].tun) {
					return b != p.end
				}
			}
			return true
		})
	}
	return p
}

// sendFlow sends a UDP packet of a flow, with the flow's own source port of the frame.
func (p *gatewayPair) sendFlow(t *testing.T, flow int, ip []byte) {
	t.Helper()
	if _, err := p.flows[flow].socket.WriteToUDPAddrPort((&fixture{}).frame(ip), p.gateway); err != nil {
		t.Fatal(err)
	}
}

// claim tells all far ends the addresses of a gateway, as it does every second.
func (e *end) claim() {
	for _, l := range e.fabric.links.all() {
		l.send(claimPort, link.Claim(e.fabric.Gateway.Table().ExternalAddresses()).Append(nil))
	}
}

// Replies to a masqueraded source go to the gateway that has the flow, whichever link their own flow
// would use; without a link to it they are refused.
func TestRepliesReachTheGatewayThatMasqueraded(t *testing.T) {
	t.Parallel()
	p := newGatewayPair(t)
	client := func(i int) netip.AddrPort { return netip.AddrPortFrom(masqueraded, uint16(5000+i)) }
	asSeen := func(i int, port uint16) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 73, 0, byte(10 + i)}), port)
	}
	server := netip.AddrPortFrom(pod, 80)
	ports := make([]uint16, len(p.far))
	for i, b := range p.far {
		wait.Until(t, "a request has arrived", func() bool {
			b.send(t, packet.AppendUDP(nil, client(i), netip.AddrPortFrom(netip.MustParseAddr("10.72.1.5"), 80), fmt.Appendf(nil, "request %d", i)))
			for _, ip := range p.packets() {
				if src := netip.AddrFrom4([4]byte(ip[12:])); src == asSeen(i, 0).Addr() {
					ports[i] = binary.BigEndian.Uint16(ip[packet.IPv4HeaderLen:])
				}
			}
			return ports[i] != 0
		})
	}
	for i, b := range p.far {
		for flow := range p.flows { // they are spread over both links
			text := fmt.Sprintf("reply %d of flow %d", i, flow)
			p.sendFlow(t, flow, packet.AppendUDP(nil, server, asSeen(i, ports[i]), []byte(text)))
			b.receives(t, text)
		}
	}

	links := p.fabric.links.all()
	p.setFit(0, false)
	links[0].state.mu.Lock()
	links[0].state.prober.UpSince = time.Time{} // it is down, and not only ending
	links[0].state.mu.Unlock()
	p.elect()
	p.packets()
	p.sendFlow(t, 0, packet.AppendUDP(nil, server, asSeen(0, ports[0]), []byte("refused")))
	wait.Until(t, "it is answered with host unreachable", func() bool {
		return slices.ContainsFunc(p.packets(), func(ip []byte) bool {
			return ip[9] == packet.ProtoICMP && ip[packet.IPv4HeaderLen] == 3 && ip[packet.IPv4HeaderLen+1] == 1
		})
	})
	var n uint64
	for _, l := range links {
		n += l.tun.Egress.Dropped(gateway.OwnerDown)
	}
	if n != 1 {
		t.Errorf("%d packets are counted as %s", n, gateway.OwnerDown)
	}
	p.sendFlow(t, 0, packet.AppendUDP(nil, server, asSeen(1, ports[1]), []byte("the other still gets its own")))
	p.far[1].receives(t, "the other still gets its own")
}

// A gateway can claim only what its cluster may send from, and as many addresses as fit a message.
func TestClaimsOutsideOfTheGrantsHaveNoEffect(t *testing.T) {
	t.Parallel()
	x := newFan(t, 2, 0)
	foreign := netip.MustParseAddr("192.0.2.1")
	b := x.far[0]
	b.give(t, func(c *config.Gateway) {
		c.Overlay.ExternalAddresses = []netip.Addr{netip.MustParseAddr("10.70.0.10"), foreign}
	})
	l := x.fabric.links.all()[0]
	wait.Until(t, "the claim has arrived", func() bool {
		b.claim()
		return slices.Contains(l.claims(), b.config.Overlay.ExternalAddresses[0])
	})
	x.elect()
	if _, owned := x.fabric.Gateway.Owner(foreign); owned {
		t.Error("a gateway owns an address that its cluster may not send from")
	}
}
