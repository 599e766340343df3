package tun

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
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

// fan is a gateway with links to several remote gateways, which all are up and stay so until the test
// decides otherwise; and many flows, each from a source port of the node.
type fan struct {
	*end
	far   []*end
	flows []*spreadFlow
	sent  int // packets of all flows
	taken int
}

// spreadFlow is what has arrived of one flow.
type spreadFlow struct {
	socket *net.UDPConn
	sent   int
	next   int // number of the packet that is to arrive next
	at     int // the remote gateway that forwarded the last one
}

func newFan(t *testing.T, gateways, flows int) *fan {
	t.Helper()
	x := &fan{end: newEnd(t, "10.71.0.0/16")}
	var links []LinkConfig
	for i := range gateways {
		b := newEnd(t, "10.72.0.0/16")
		x.far = append(x.far, b)
		t.Cleanup(func() { b.fabric.Close() })
		links = append(links, x.link(fmt.Sprintf("b-%d", i), b))
		setLinks(t, b, b.link("a-0", x.end))
	}
	t.Cleanup(func() { x.fabric.Close() })
	setLinks(t, x.end, links...)
	wait.Until(t, "all links are up", func() bool {
		return x.linksUp() == gateways && !slices.ContainsFunc(x.far, func(b *end) bool { return !b.isUp() })
	})
	for i, b := range x.far {
		links[i] = silent(links[i])
		setLinks(t, b, silent(b.link("a-0", x.end)))
	}
	setLinks(t, x.end, links...)
	x.hold(t)
	x.open(t, flows)
	return x
}

// sourcePort opens another port from which the node sends.
func (e *end) sourcePort(t *testing.T) *net.UDPConn {
	t.Helper()
	s, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(e.node.LocalAddr().(*net.UDPAddr).AddrPort().Addr(), 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// hold makes all links fit, so that each carries its part. No more probes are sent: the test decides which link is fit.
func (x *fan) hold(t *testing.T) {
	t.Helper()
	x.fabric.stop()
	for i := range x.fabric.links.all() {
		x.setFit(i, true)
	}
	x.elect()
	for _, l := range x.fabric.links.all() {
		if !l.active.Load() {
			t.Fatalf("link %v carries nothing although all are up; links: %+v", l.identity(), x.fabric.Status())
		}
	}
}

// open adds flows.
func (x *fan) open(t *testing.T, flows int) {
	t.Helper()
	for range flows {
		x.flows = append(x.flows, &spreadFlow{socket: x.sourcePort(t), at: -1})
	}
}

// setFit makes a link fit for traffic, or not, whatever its probes say.
func (x *fan) setFit(which int, fit bool) {
	l := x.fabric.links.all()[which]
	now := x.fabric.clock.now()
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	p := &l.state.prober
	p.News, p.UpSince, p.Last.Kind = now.Add(time.Hour), now.Add(-time.Hour), link.Hello
	if !fit {
		p.Last.Kind = link.Leaving
	}
	p.Arrived, p.Quiet, p.Awaiting = math.MaxUint64, math.MinInt, math.MinInt // no probe, nor the lack of one, changes that
}

func (x *fan) elect() {
	x.fabric.director.elect(x.fabric.clock.now())
}

// sendOne sends the next packet of a flow.
func (x *fan) sendOne(t *testing.T, flow int) {
	t.Helper()
	s := x.flows[flow]
	ip := tcpPacket(pod, remotePod, fmt.Appendf(nil, "flow %04d packet %04d", flow, s.sent), false)
	binary.BigEndian.PutUint16(ip[20:], uint16(20000+flow)) // the checksum does not matter to gateways
	if _, err := s.socket.WriteToUDPAddrPort((&fixture{}).frame(ip), x.gateway); err != nil {
		t.Fatal(err)
	}
	s.sent++
	x.sent++
}

// take checks what has arrived: in order, and on the path that its flow had.
func (x *fan) take(t *testing.T, moved func(flow, from, to int)) {
	t.Helper()
	for at, b := range x.far {
		for _, ip := range b.packets() {
			i := bytes.LastIndex(ip, []byte("flow "))
			if i < 0 {
				continue
			}
			var flow, number int
			if _, err := fmt.Sscanf(string(ip[i:]), "flow %d packet %d", &flow, &number); err != nil {
				t.Fatal(err)
			}
			f := x.flows[flow]
			if number != f.next {
				t.Errorf("flow %d: packet %d arrives, want %d", flow, number, f.next)
			}
			if f.at >= 0 && f.at != at {
				moved(flow, f.at, at)
			}
			f.next, f.at = number+1, at
			x.taken++
		}
	}
}

// round sends one packet of each flow, few at a time so that no queue overflows, and waits for them.
func (x *fan) round(t *testing.T, moved func(flow, from, to int)) {
	t.Helper()
	for flow := range x.flows {
		x.sendOne(t, flow)
		if x.sent-x.taken >= 32 || flow == len(x.flows)-1 {
			x.settle(t, moved)
		}
	}
}

// settle waits until everything has arrived.
func (x *fan) settle(t *testing.T, moved func(flow, from, to int)) {
	t.Helper()
	wait.Until(t, "all packets have arrived", func() bool { x.take(t, moved); return x.taken == x.sent })
}

func (x *fan) perGateway() []int {
	count := make([]int, len(x.far))
	for _, f := range x.flows {
		count[f.at]++
	}
	return count
}

// Every flow uses one link, and all links are used. When a link goes, only its flows move; when it is
// back, the flows of the others stay. Nothing is lost or overtaken.
func TestFlowsAreSpreadOverLinksAndMoveOnlyWithTheirOwn(t *testing.T) {
	t.Parallel()
	const flows = 1000
	x := newFan(t, 3, flows)
	stays := func(flow, from, to int) { t.Errorf("flow %d moves from gateway %d to %d", flow, from, to) }
	for range 3 {
		x.round(t, stays)
	}
	count := x.perGateway()
	t.Logf("flows by remote gateway: %v", count)
	if busiest := slices.Max(count); busiest > flows*45/100 {
		t.Errorf("the busiest of 3 links has %d of %d flows", busiest, flows)
	}

	const down = 1
	before := make([]int, flows)
	for i, f := range x.flows {
		before[i] = f.at
	}
	x.setFit(down, false)
	x.elect()
	x.round(t, func(flow, from, to int) {
		if from != down {
			t.Errorf("flow %d moves from gateway %d, which is up, to %d", flow, from, to)
		}
	})
	x.round(t, stays)
	if count = x.perGateway(); count[down] != 0 || slices.Max(count) > flows*60/100 {
		t.Errorf("without gateway %d the flows are at %v", down, count)
	}
	x.setFit(down, true)
	x.elect()
	x.round(t, func(flow, from, to int) {
		if to != down || before[flow] != down {
			t.Errorf("flow %d moves from gateway %d to %d, it was at %d", flow, from, to, before[flow])
		}
	})
	x.round(t, stays)
	for i, f := range x.flows {
		if f.at != before[i] {
			t.Errorf("flow %d is at gateway %d, it was at %d", i, f.at, before[i])
		}
	}
}

// Flows use the links with a weight. They move to the others when those are down, and back; and with new
// weights. Nothing is lost or overtaken.
func TestFlowsUseLinksByWeight(t *testing.T) {
	t.Parallel()
	x := newFan(t, 3, 64)
	weigh := func(weights ...int) {
		var links []LinkConfig
		for i, w := range weights {
			l := silent(x.link(fmt.Sprintf("b-%d", i), x.far[i]))
			l.Weight = w
			links = append(links, l)
		}
		setLinks(t, x.end, links...)
	}
	ignore := func(flow, from, to int) {}
	weigh(0, 1, 0)
	x.round(t, ignore)
	if got := x.perGateway(); got[1] != len(x.flows) {
		t.Errorf("only gateway 1 has a weight, and the flows are at %v", got)
	}
	x.setFit(1, false)
	x.elect()
	x.round(t, ignore)
	if got := x.perGateway(); got[0] == 0 || got[1] != 0 || got[2] == 0 {
		t.Errorf("gateway 1 is down, and the flows are at %v", got)
	}
	x.setFit(1, true)
	x.elect()
	x.round(t, ignore)
	if got := x.perGateway(); got[1] != len(x.flows) {
		t.Errorf("gateway 1 is up again, and the flows are at %v", got)
	}
	weigh(1, 0, 1)
	x.round(t, ignore)
	if got := x.perGateway(); got[0] == 0 || got[1] != 0 || got[2] == 0 {
		t.Errorf("gateway 1 has no weight any more, and the flows are at %v", got)
	}
}

// What waits in the sockets of the overlay when a link goes is sent by another: whether it is down, or removed.
func TestPacketsThatWaitForALinkThatGoesAreNotLost(t *testing.T) {
	t.Parallel()
	ignore := func(flow, from, to int) {}
	for name, goes := range map[string]func(*fan){
		"down": func(x *fan) { x.setFit(0, false); x.elect() },
		"removed": func(x *fan) {
			if err := x.fabric.SetLinks([]LinkConfig{silent(x.link("b-1", x.far[1]))}); err != nil {
				panic(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newFan(t, 2, 32)
			x.round(t, ignore)
			links, in := x.fabric.links.all(), &x.fabric.Overlay.incoming
			in.mu.Lock() // the reader waits
			for flow, f := range x.flows {
				if f.at == 0 {
					x.sendOne(t, flow)
				}
			}
			waiting := x.sent - x.taken
			wait.Until(t, "packets wait", func() bool { return !in.sources[0].socket.Empty() })
			gone := make(chan struct{})
			go func() { goes(x); close(gone) }()
			wait.Until(t, "the link carries nothing", func() bool { return x.fabric.director.routing.Load().share(links[0].tun) == 0 })
			in.mu.Unlock()
			<-gone
			x.settle(t, ignore)
			if waiting == 0 || x.perGateway()[0] != 0 || !links[1].tun.reads.Load() {
				t.Errorf("%d packets waited, flows are at %v", waiting, x.perGateway())
			}
			x.round(t, ignore)
		})
	}
}

// The pieces of a super-packet that are left when its link goes are sent by the one that reads from then on.
func TestThePiecesOfAPacketInHandAreSentByTheNextReader(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.fromNode(t, tcpPacket(pod, remotePod, make([]byte, 60000), true))
	bufs, sizes := buffers(4)
	if n, err := f.device.Read(bufs, sizes, readOffset); n != 4 || err != nil {
		t.Fatalf("read %d, %v", n, err)
	}
	next, err := newDevice(f.device.gateway, f.device.overlay, f.device.host, f.device.routing)
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	next.peerKnown.Store(true)
	f.device.routing.Store(allOver(next))
	if err := errors.Join(f.device.readOverlay(false), next.readOverlay(true)); err != nil {
		t.Fatal(err)
	}
	if n, err := next.Read(bufs, sizes, readOffset); n != 4 || err != nil {
		t.Errorf("the next reader reads %d pieces, %v", n, err)
	}
	next.peerKnown.Store(false)
	f.device.routing.Store(new(routing))
	f.fromNode(t, tcpPacket(pod, remotePod, []byte("without a link"), false))
	next.inject(&next.Egress.Counters, []byte("own"), ownPacket)
	wait.Until(t, "the rest is dropped", func() bool {
		next.inject(&next.Egress.Counters, []byte("own"), ownPacket)
		next.Read(bufs, sizes, readOffset)
		return next.Egress.Dropped(gateway.NoPeer) == 2
	})
}

// Links leave and come back, and one after the other reads the overlay, while packets flow: all of them arrive.
func TestNoPacketIsLostWhileLinksComeAndGo(t *testing.T) {
	t.Parallel()
	x := newFan(t, 2, 64)
	links := []LinkConfig{silent(x.link("b-0", x.far[0])), silent(x.link("b-1", x.far[1]))}
	absent := silent(x.link("b-2", &end{private: newKey()})) // it is never up
	changes := make(chan error, 1)
	go func() {
		var failed error
		for i := range 20 {
			failed = errors.Join(failed, x.fabric.SetLinks(append(slices.Clone(links), absent)))
			x.setFit(i%2, false)
			x.elect()
			failed = errors.Join(failed, x.fabric.SetLinks(links))
			x.setFit(i%2, true)
			x.elect()
		}
		changes <- failed
	}()
	arrived, last := make(map[string]int), 0
	for done := false; !done; {
		for flow := range x.flows {
			x.sendOne(t, flow)
		}
		wait.Until(t, "all packets have arrived", func() bool {
			for _, b := range x.far {
				for _, ip := range b.packets() {
					if i := bytes.LastIndex(ip, []byte("flow ")); i >= 0 {
						arrived[string(ip[i:])]++
					}
				}
			}
			return len(arrived) == x.sent
		})
		select {
		case err := <-changes:
			if err != nil {
				t.Fatal(err)
			}
			done = true
		default:
		}
		last++
	}
	for packet, times := range arrived {
		if times != 1 {
			t.Errorf("%s arrived %d times", packet, times)
		}
	}
	t.Logf("%d packets of each flow", last)
}

// The link that sends most of what nodes send reads the overlay; without links, the fallback does.
func TestTheLinkWithTheMostFlowsReadsTheOverlay(t *testing.T) {
	t.Parallel()
	x := newFan(t, 2, 8)
	weighted := func(first, second int) []LinkConfig {
		links := []LinkConfig{silent(x.link("b-0", x.far[0])), silent(x.link("b-1", x.far[1]))}
		links[0].Weight, links[1].Weight = first, second
		return links
	}
	for _, c := range []struct {
		name  string
		links []LinkConfig
		reads int // the number of the link; -1: none
	}{
		{"the second has a weight", weighted(0, 1), 1},
		{"both have the same", weighted(1, 1), 1},
		{"the first has more", weighted(2, 1), 0},
		{"both have the same again", weighted(1, 1), 0},
		{"there is no link", nil, -1},
		{"the second alone", weighted(1, 1)[1:], 0},
	} {
		setLinks(t, x.end, c.links...)
		readers := []bool{x.fabric.director.fallback.reads.Load()}
		for _, l := range x.fabric.links.all() {
			readers = append(readers, l.tun.reads.Load())
		}
		for i, reads := range readers {
			if reads != (i == c.reads+1) {
				t.Errorf("%s: the fallback and the links read %v, want link %d", c.name, readers, c.reads)
			}
		}
	}
}

// The gateway's own packets are spread like those of nodes; those between link addresses use their link.
func TestPacketsOfTheHostAreSpreadOverLinks(t *testing.T) {
	t.Parallel()
	x := newFan(t, 2, 0)
	links := x.fabric.links.all()
	count := make(map[*Device]int)
	for flow := range uint32(256) {
		count[x.fabric.deviceFor(pod, remotePod, flow)]++
	}
	if len(count) != 2 || count[links[0].tun] != 128 || count[links[1].tun] != 128 {
		t.Errorf("256 flows of the host use the links %v", count)
	}
	for _, s := range x.fabric.Status() {
		if s.Share != 0.5 {
			t.Errorf("link %s has %v of the flows", s.Name, s.Share)
		}
	}
	for _, l := range links {
		if x.fabric.deviceFor(l.own, l.far, 0) != l.tun {
			t.Errorf("packets between the addresses of link %s use another", l.identity().Name)
		}
	}
	x.setFit(0, false)
	x.elect()
	for flow := range uint32(256) {
		if x.fabric.deviceFor(pod, remotePod, flow) != links[1].tun {
			t.Errorf("flow %d of the host uses a link that is not fit", flow)
		}
	}
}

// The fragments of a datagram may come from several sources of the overlay, and mixed with those of others.
func TestFragmentsOfAMasqueradedSourceMayArriveMixed(t *testing.T) {
	t.Parallel()
	x := newFan(t, 2, 32)
	external := netip.MustParseAddr("10.70.0.1")
	flows := gateway.NewFlows(gateway.FlowsConfig{Flows: 1000, FlowsPerSource: 1000, Random: rand.NewPCG(1, 1), Epoch: time.Now()})
	flows.Use([]netip.Addr{external})
	x.fabric.Gateway.SetFlows(flows)
	x.give(t, func(c *config.Gateway) { c.Masquerade.Sources = []netip.Prefix{netip.PrefixFrom(masqueraded, 32)} })
	for _, b := range x.far {
		b.give(t, func(c *config.Gateway) {
			c.Remote.Prefixes = append(c.Remote.Prefixes, config.RemotePrefix{
				CIDR: netip.MustParsePrefix("10.70.0.0/16"), SeenAs: netip.MustParsePrefix("10.74.0.0/16"),
			})
		})
	}
	x.round(t, func(flow, from, to int) {})
	at := func(gateway int) *net.UDPConn { // a source port whose flow uses a link
		i := slices.IndexFunc(x.flows, func(f *spreadFlow) bool { return f.at == gateway })
		if i < 0 {
			t.Fatalf("no flow uses the link to gateway %d; flows by gateway: %v", gateway, x.perGateway())
		}
		return x.flows[i].socket
	}
	for i := range 200 {
		text := fmt.Sprintf("datagram %03d", i)
		whole := packet.AppendUDP(nil, netip.AddrPortFrom(masqueraded, uint16(1000+i)), netip.AddrPortFrom(remotePod, 53), append(make([]byte, 100), text...))
		for part, ip := range fragments(whole, uint16(i), 64) {
			if _, err := at((i+part)%2).WriteToUDPAddrPort((&fixture{}).frame(ip), x.gateway); err != nil {
				t.Fatal(err)
			}
		}
		if i%16 == 15 {
			wait.Until(t, "the datagram has arrived", func() bool { return x.far[0].received(text) || x.far[1].received(text) })
		}
	}
	arrived := 0
	wait.Until(t, "all have arrived", func() bool {
		for _, b := range x.far {
			for _, ip := range b.packets() {
				if bytes.Contains(ip, []byte("datagram ")) {
					arrived++
				}
			}
		}
		return arrived == 200
	})
}

// fragments cuts an IPv4 packet into two, the first with so many bytes of payload.
func fragments(whole []byte, id uint16, first int) [2][]byte {
	cut := func(payload []byte, offset int, more byte) []byte {
		b := append(bytes.Clone(whole[:packet.IPv4HeaderLen]), payload...)
		binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
		binary.BigEndian.PutUint16(b[4:], id)
		b[6], b[7] = more, byte(offset/8)
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^packet.Sum(b[:packet.IPv4HeaderLen], 0))
		return b
	}
	payload := whole[packet.IPv4HeaderLen:]
	return [2][]byte{cut(payload[:first], 0, 0x20), cut(payload[first:], first, 0)}
}
