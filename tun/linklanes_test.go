package tun

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

// newLanes are both ends of a link with several lanes, which all are fit until the test decides otherwise. Each
// end maps the pods of the other as newFan does.
func newLanes(t *testing.T, lanes, flows int) (x, y *fan) {
	t.Helper()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.71.0.0/16")
	a.lanes, b.lanes = lanes, lanes
	t.Cleanup(func() { a.fabric.Close(); b.fabric.Close() })
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, silent(b.link("a-0", a)))
	wait.Until(t, "all lanes are up", func() bool { return a.lanesUp() == lanes && b.lanesUp() == lanes })
	setLinks(t, a, silent(a.link("b-0", b)))
	x, y = &fan{end: a, far: []*end{b}}, &fan{end: b, far: []*end{a}}
	for _, f := range []*fan{x, y} {
		f.hold(t)
		f.open(t, flows)
	}
	return x, y
}

// lanesOfFlows sends one packet of each flow and returns the lanes that they use.
func (x *fan) lanesOfFlows(t *testing.T) (lanes []int) {
	t.Helper()
	sent := func() (packets []uint64) {
		for _, s := range x.fabric.Status() {
			n, _ := s.Egress.Forwarded()
			packets = append(packets, n)
		}
		return packets
	}
	for flow := range x.flows {
		before := sent()
		x.sendOne(t, flow)
		x.settle(t, func(int, int, int) {})
		after := sent()
		for lane := range after {
			after[lane] -= before[lane]
		}
		lane := slices.Index(after, 1)
		if lane < 0 || slices.Max(after) > 1 || slices.Contains(after[lane+1:], 1) {
			t.Fatalf("the lanes have sent %v packets of flow %d, of which there was one", after, flow)
		}
		lanes = append(lanes, lane)
	}
	return lanes
}

// Each flow uses one lane, in both directions of the link, and all lanes are used. When one fails, only its flows
// move; when it is back they return, and the others stay. Nothing is lost or overtaken.
func TestFlowsAreSpreadOverLanesAndMoveOnlyWithTheirOwn(t *testing.T) {
	t.Parallel()
	const lanes, flows, down = 3, 96, 1
	x, y := newLanes(t, lanes, flows)
	for _, f := range []*fan{x, y} {
		at := f.lanesOfFlows(t)
		count := make([]int, lanes)
		for _, lane := range at {
			count[lane]++
		}
		t.Logf("flows by lane: %v", count)
		if slices.Min(count) == 0 || slices.Max(count) > flows*2/3 {
			t.Errorf("%d flows use the lanes %v", flows, count)
		}
		if again := f.lanesOfFlows(t); !slices.Equal(at, again) {
			t.Errorf("flows use the lanes %v, then %v", at, again)
		}
		f.setFit(down, false)
		f.elect()
		for flow, lane := range f.lanesOfFlows(t) {
			if lane == down || at[flow] != down && lane != at[flow] {
				t.Errorf("without lane %d, flow %d moves from lane %d to %d", down, flow, at[flow], lane)
			}
		}
		f.setFit(down, true)
		f.elect()
		if again := f.lanesOfFlows(t); !slices.Equal(at, again) {
			t.Errorf("flows use the lanes %v, and after a failure %v", at, again)
		}
	}
}

// A link has as many lanes as both ends have, also when one of them changes the number. What is not a lane of
// both has no port, no probe and no socket.
func TestTheEndWithFewerLanesDecides(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	for _, lanes := range [][2]int{{1, 0}, {3, 1}, {3, 2}, {2, 3}, {3, 3}, {0, 3}, {2, 2}} { // of a and b, one after the other
		a.lanes, b.lanes = lanes[0], lanes[1]
		setLinks(t, a, a.link("b-0", b))
		setLinks(t, b, b.link("a-0", a))
		want := max(min(lanes[0], lanes[1]), 1)
		for _, e := range []*end{a, b} {
			wait.Until(t, fmt.Sprintf("of %v lanes, %d carry packets", lanes, want), func() bool {
				all := e.fabric.Status()
				return len(all) == want && e.lanesUp() == want && !slices.ContainsFunc(all, func(s LinkStatus) bool { return !s.Active })
			})
			e.fabric.mu.Lock()
			if n := len(e.fabric.Overlay.lanes); n != want {
				t.Errorf("with %v lanes the overlay has %d sockets", lanes, n)
			}
			e.fabric.mu.Unlock()
		}
		var names []string
		for _, s := range a.fabric.Status() {
			names = append(names, s.Name)
			if s.Gateway != "b-0" {
				t.Errorf("%s leads to gateway %q", s.Name, s.Gateway)
			}
		}
		if all := []string{"b-0", "b-0/1", "b-0/2"}; !slices.Equal(names, all[:want]) {
			t.Errorf("the lanes are %v", names)
		}
	}
}

// If a lane's port is taken, the link has the lanes before it, at both ends.
func TestALaneWhosePortIsTakenIsNotUsed(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	a.lanes, b.lanes = 3, 3
	taken, err := net.ListenUDP("udp4", &net.UDPAddr{Port: int(a.port) + 2})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, b.link("a-0", a))
	all := func(lanes int) func() bool {
		return func() bool {
			a.fabric.mu.Lock()
			most := a.fabric.most
			a.fabric.mu.Unlock()
			return (most == lanes || lanes == 3 && most == config.MaxLanes) && a.lanesUp() == lanes && b.lanesUp() == lanes && len(b.fabric.Status()) == lanes
		}
	}
	wait.Until(t, "both ends use the two lanes that are left", all(2))
	taken.Close()
	setLinks(t, a, a.link("b-0", b)) // the configuration is read again
	wait.Until(t, "both ends use all lanes", all(3))
}

// When the path of a lane fails, its flows move to the others, in both directions, until it works again.
func TestFlowsLeaveALaneWhosePathFails(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.71.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	a.lanes, b.lanes = 2, 2
	near := ports.Consecutive(t, 2)
	first, second := newBadPathFrom(t, near, b.port), newBadPathFrom(t, near+1, b.port+1)
	there := a.link("b-0", b)
	there.Endpoints = []string{first.near.LocalAddr().String()}
	setLinks(t, a, there)
	setLinks(t, b, silent(b.link("a-0", a)))
	ends := map[*end]*end{a: b, b: a}
	carry := func(up bool) {
		t.Helper()
		for e := range ends {
			wait.Until(t, fmt.Sprintf("lane 1 carries packets: %t", up), func() bool {
				s := e.fabric.Status()
				return len(s) == 2 && s[0].Active && s[1].Active == up && s[1].Up == up
			})
		}
	}
	crosses := func(text string) {
		t.Helper()
		for from, to := range ends {
			for range 32 { // source ports, in buckets of both lanes
				s := from.sourcePort(t)
				wait.Until(t, "a packet crosses", func() bool {
					if _, err := s.WriteToUDPAddrPort((&fixture{}).frame(tcpPacket(pod, remotePod, []byte(text), false)), from.gateway); err != nil {
						t.Fatal(err)
					}
					return to.received(text)
				})
				to.packets()
			}
		}
	}
	carry(true)
	crosses("by both lanes")
	second.cut.Store(true)
	carry(false)
	crosses("by one lane")
	second.cut.Store(false)
	carry(true)
	crosses("by both again")
}

// Lanes of one link are one link to the control channel, which uses one that is up.
func TestTheControlChannelUsesALaneThatIsUp(t *testing.T) {
	t.Parallel()
	x, _ := newLanes(t, 2, 0)
	links := *x.fabric.links.Load()
	for _, down := range []*Link{nil, links[0]} {
		want := links[0]
		if down != nil {
			down.mu.Lock()
			down.prober.answered = time.Time{}
			down.mu.Unlock()
			want = links[1]
		}
		up := x.fabric.LinksUp()
		if len(up) != 1 || up[0].Name != want.identity().Name || x.fabric.linkWith(up[0].OwnKey, up[0].RemoteKey) != want {
			t.Errorf("up are %+v, want %s", up, want.identity().Name)
		}
	}
}

// The host's packets are spread over lanes; those between link addresses use their lane.
func TestPacketsOfTheHostAreSpreadOverLanes(t *testing.T) {
	t.Parallel()
	x, _ := newLanes(t, 2, 0)
	links := *x.fabric.links.Load()
	count := make(map[*Device]int)
	for flow := range uint32(256) {
		count[x.fabric.deviceFor(pod, remotePod, flow)]++
	}
	for _, l := range links {
		if count[l.tun] != 128 || x.fabric.deviceFor(l.own, l.prober.address, 0) != l.tun {
			t.Errorf("256 flows of the host use the lanes %v", count)
		}
	}
	if links[0].own == links[1].own || links[0].prober.address == links[1].prober.address {
		t.Error("lanes have the same link addresses")
	}
}

// All lanes of the gateway that owns an address reach it, so that a packet for it leaves by the lane that read it.
func TestAllLanesOfAnOwnerReachIt(t *testing.T) {
	t.Parallel()
	f := &Fabric{options: Options{Log: slog.New(slog.DiscardHandler)}, Gateway: gateway.New(new(gateway.Table))}
	address := netip.MustParseAddr("10.70.0.1")
	lane := func(name, remote string, fit fitness, claims ...netip.Addr) *member {
		l := linkUpFor(name, remote, 0, time.Time{})
		l.tun, l.claims = new(Device), claims
		return &member{links: []*Link{l}, link: l, fit: fit}
	}
	x0, x1, x2, y := lane("x", "x", up, address), lane("x/1", "x", up), lane("x/2", "x", down), lane("y", "y", up)
	f.pin([]*member{x0, x1, x2})
	if _, owned := f.Gateway.Owner(address); owned {
		t.Error("an address is owned although there is one remote gateway")
	}
	f.pin([]*member{y, x0, x1, x2})
	owner, _ := f.Gateway.Owner(address)
	all, _ := owner.([]*Device)
	if !slices.Equal(all, []*Device{x0.link.tun, x1.link.tun}) {
		t.Fatalf("the address is reached by %v", all)
	}
	for _, c := range []struct{ reads, sends *member }{{x0, x0}, {x1, x1}, {x2, x0}, {y, x0}} {
		if c.reads.link.tun.toward(all) != c.sends.link.tun {
			t.Errorf("what %s reads is not sent by %s", c.reads.link.identity().Name, c.sends.link.identity().Name)
		}
	}
}

func TestLanesUseThePortsAfterTheFirst(t *testing.T) {
	t.Parallel()
	c := LinkConfig{Name: "b-0", ListenPort: 51840, Endpoints: []string{"gw-b.example:51840", "[2001:db8::1]:65534", "192.0.2.1:65533"}}
	got := c.onLane(2)
	want := []string{"gw-b.example:51842", "192.0.2.1:65535"}
	if got.Name != "b-0/2" || got.Gateway != "b-0" || got.ListenPort != 51842 || !slices.Equal(got.Endpoints, want) {
		t.Errorf("lane 2: %+v", got)
	}
	c.ListenPort = 0 // any
	if got = c.onLane(1); got.ListenPort != 0 {
		t.Errorf("lane 1 of any port: %+v", got)
	}
	c = LinkConfig{PrivateKey: newKey(), ListenPort: 65534, Lanes: 4}
	f := &Fabric{configs: []LinkConfig{c}, most: config.MaxLanes}
	l := &Link{}
	l.prober.lanes = 4
	if all := f.withLanes(map[linkKey]*Link{keyOf(c): l}); len(all) != 2 || all[0].Lanes != 2 {
		t.Errorf("lanes from port 65534: %+v", all)
	}
}
