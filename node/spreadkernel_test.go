//go:build lab

package node

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/wait"
)

// fan is a node between a pod and several gateways, each of which has the same remote host:
//
//	pod ──────────── node ─────────────┬ gateway 0   192.0.2.10, 10.80.0.1
//	10.0.1.5   10.0.1.1  192.0.2.21    ├ gateway 1   192.0.2.11, 10.80.0.2
//	                10.80.0.11 ════════└ ...         all: 10.71.2.9, fd00:71::9
//
// The gateways' ends of the overlay are VXLAN devices. The node hashes by ports.
type fan struct {
	pod, node *netns.Namespace
	gateways  []*netns.Namespace
	kernel    *Kernel

	mu   sync.Mutex
	seen map[string]int // gateway that got the last datagram of a flow, by its source
}

func newFan(t *testing.T, n int) *fan {
	t.Helper()
	w := &fan{pod: netns.New(t), node: netns.New(t), seen: map[string]int{}}
	w.node.IP(t, fmt.Sprintf(`
link add pod0 type veth peer name eth0 %s
addr add 10.0.1.1/24 dev pod0
addr add fd00:10:0:1::1/64 dev pod0 nodad
link set pod0 up
`, w.pod.Here()))
	w.pod.IP(t, `
addr add 10.0.1.5/24 dev eth0
addr add fd00:10:0:1::5/64 dev eth0 nodad
link set eth0 up
route add default via 10.0.1.1
route add default via fd00:10:0:1::1
`)
	must(t, w.node.In(func() error {
		for _, key := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding", "ipv4/fib_multipath_hash_policy", "ipv6/fib_multipath_hash_policy"} {
			if err := writeSysctl(key, "1"); err != nil {
				return err
			}
		}
		return nil
	}))
	for i := range n {
		g := netns.New(t)
		w.gateways = append(w.gateways, g)
		w.node.IP(t, fmt.Sprintf(`
link add gw%d type veth peer name eth0 %s
addr replace 192.0.2.21/32 dev gw%[1]d
link set gw%[1]d up
route add 192.0.2.%[3]d dev gw%[1]d src 192.0.2.21
`, i, g.Here(), 10+i))
		g.IP(t, fmt.Sprintf(`
addr add 192.0.2.%d/32 dev eth0
link set eth0 up
route add 192.0.2.21 dev eth0 src 192.0.2.%[1]d
addr add 10.71.2.9/32 dev lo
addr add fd00:71::9/128 dev lo nodad
link add overlay type vxlan id %d remote 192.0.2.21 dstport 6092 nolearning
link set overlay address 0a:58:0a:50:00:%02x mtu 1400
addr add 10.80.0.%[4]d/32 dev overlay
addr add fd00:80::%[4]x/128 dev overlay nodad
link set overlay up
neigh add 10.80.0.11 lladdr 0a:58:0a:50:00:0b dev overlay nud permanent
neigh add fd00:80::11 lladdr 0a:58:0a:50:00:0b dev overlay nud permanent
route add 10.0.1.0/24 via 10.80.0.11 dev overlay onlink
route add fd00:10:0:1::/64 via fd00:80::11 dev overlay onlink
`, 10+i, 257+i, i+1, i+1))
		w.receive(t, i, "udp4", "10.71.2.9:7000")
		w.receive(t, i, "udp6", "[fd00:71::9]:7000")
	}
	w.kernel = openIn(t, w.node)
	return w
}

// receive records the flows of which a gateway gets datagrams.
func (w *fan) receive(t *testing.T, gateway int, network, at string) {
	var conn *net.UDPConn
	must(t, w.gateways[gateway].In(func() (err error) {
		conn, err = net.ListenUDP(network, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(at)))
		return err
	}))
	var reader sync.WaitGroup
	reader.Go(func() {
		for b := make([]byte, 16); ; {
			_, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			w.mu.Lock()
			w.seen[from.String()] = gateway
			w.mu.Unlock()
		}
	})
	t.Cleanup(func() { _ = conn.Close(); reader.Wait() })
}

// flows opens UDP sockets in the pod, each towards the remote host, half of them with IPv6.
func (w *fan) flows(t *testing.T, n int) (all []net.Conn) {
	t.Helper()
	must(t, w.pod.In(func() error {
		for i := range n {
			conn, err := net.Dial("udp", []string{"10.71.2.9:7000", "[fd00:71::9]:7000"}[i%2])
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = conn.Close() })
			all = append(all, conn)
		}
		return nil
	}))
	return all
}

// send sends a datagram of each flow until all have arrived, and returns the gateway of each.
func (w *fan) send(t *testing.T, flows []net.Conn) map[string]int {
	t.Helper()
	w.mu.Lock()
	w.seen = map[string]int{}
	w.mu.Unlock()
	var got map[string]int
	wait.Until(t, "all flows arrive", func() bool {
		w.mu.Lock()
		got = maps.Clone(w.seen)
		w.mu.Unlock()
		for _, f := range flows {
			if _, arrived := got[f.LocalAddr().String()]; !arrived {
				if _, err := f.Write([]byte("x")); err != nil {
					t.Fatal(err)
				}
			}
		}
		return len(got) == len(flows)
	})
	return got
}

func (w *fan) apply(t *testing.T, d Desired) []Operation {
	t.Helper()
	must(t, d.Validate())
	done, _, err := w.kernel.achieve(d)
	must(t, err)
	observed, err := w.kernel.observeFor(d)
	must(t, err)
	if left := Plan(d, observed); len(left) > 0 {
		t.Errorf("operations left:\n%s\nobserved: %+v", text(left), observed)
	}
	return done
}

// desired is the desired state of the node, with more routes to the same gateways.
func (w *fan) desired(routes int) Desired {
	d := desiredOf(len(w.gateways), routes)
	d.Pods = prefixes("10.0.0.0/16", "fd00:10::/48")
	for _, p := range prefixes("10.71.0.0/16", "fd00:71::/48") {
		d.Routes = append(slices.DeleteFunc(d.Routes, func(r Route) bool { return r.Prefix == p }), Route{p, "b"})
	}
	return d
}

func (w *fan) count(of map[string]int) []int {
	n := make([]int, len(w.gateways))
	for _, g := range of {
		n[g]++
	}
	return n
}

// kernels are the ways in which kernels spread flows.
var kernels = []struct {
	name  string
	set   func(*nexthopTable)
	stays bool // flows of other gateways keep theirs when one is taken out
}{
	{"resilient groups", func(*nexthopTable) {}, true},
	{"plain groups, Linux 5.3", func(n *nexthopTable) { n.plain = true }, false},
	{"multipath routes, before Linux 5.3", func(n *nexthopTable) { n.missing = true }, false},
}

func TestFlowsAreSpreadAndLeaveADeadGatewayOnly(t *testing.T) {
	for _, kernel := range kernels {
		t.Run(kernel.name, func(t *testing.T) {
			w := newFan(t, 4)
			kernel.set(&w.kernel.nexthops)
			d := w.desired(0)
			w.apply(t, d)
			flows := w.flows(t, 400)
			before := w.send(t, flows)
			spread := w.count(before)
			t.Logf("400 flows over 4 gateways: %v", spread)
			if slices.Max(spread) > 140 || slices.Min(spread) < 60 {
				t.Errorf("400 flows are spread as %v", spread)
			}
			if again := w.send(t, flows); !maps.Equal(again, before) {
				t.Error("flows moved while all gateways live")
			}
			w.gateways[2].IP(t, "link set eth0 down")
			w.apply(t, d.without("b-2"))
			after := w.send(t, flows)
			moved := 0
			for flow, g := range before {
				switch {
				case after[flow] == 2:
					t.Errorf("%s still goes to the dead gateway", flow)
				case g != 2 && after[flow] != g:
					moved++
				}
			}
			t.Logf("flows of live gateways that moved: %d of %d", moved, 400-spread[2])
			if kernel.stays && moved > 0 {
				t.Errorf("%d flows of live gateways moved", moved)
			}
			must(t, w.kernel.Remove())
			if left := w.node.Run(t, "ip", "nexthop"); left != "" {
				t.Errorf("nexthops left:\n%s", left)
			}
		})
	}
}

func TestAGatewayIsTakenOutOfAThousandRoutesByOneMessage(t *testing.T) {
	w := newFan(t, 3)
	d := w.desired(1000)
	w.apply(t, d)
	if done := w.apply(t, d.without("b-1")); len(done) != 2 {
		t.Errorf("%d operations, want one for each family:\n%s", len(done), text(done))
	}
	w.apply(t, d)
	began := time.Now()
	w.kernel.nexthops.spread(d.without("b-0")) // does not read the kernel
	took := time.Since(began)
	if done := w.kernel.nexthops.takeDone(); len(done) != 2 {
		t.Errorf("done:\n%s", text(done))
	}
	began = time.Now()
	observed, err := w.kernel.observeFor(d)
	must(t, err)
	t.Logf("1,000 routes: groups changed in %v, the kernel is read in %v", took, time.Since(began))
	if left := Plan(d.without("b-0"), observed); len(left) > 0 {
		t.Errorf("left:\n%s", text(left))
	}
	// A run for the earlier state, which was reading meanwhile, does not bring the gateway back.
	_, _, err = w.kernel.achieve(d)
	must(t, err)
	for _, g := range w.count(w.send(t, w.flows(t, 60)))[:1] {
		if g > 0 {
			t.Errorf("%d flows go to the gateway that is out", g)
		}
	}
	w.kernel.nexthops.spread(d)
	w.apply(t, d)
}

func TestKeepTakesAGatewayOut(t *testing.T) {
	w := newFan(t, 3)
	desired, reports := (&world{node: w.node, kernel: w.kernel}).keep(t)
	d := w.desired(10)
	desired <- d
	if r := <-reports; r.Err != nil {
		t.Fatal(r.Err)
	}
	flows := w.flows(t, 60)
	w.send(t, flows)
	desired <- d.without("b-0")
	for {
		r := <-reports
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if strings.Contains(text(r.Done), " group ") {
			break
		}
	}
	if spread := w.count(w.send(t, flows)); spread[0] > 0 {
		t.Errorf("spread over %v, but the first gateway is out", spread)
	}
}

// The kernel deletes a group with its last nexthop, and the routes that refer to it: the
// blackholes stay.
func TestNothingLeavesByOtherRoutesWhenAllLinksAreGone(t *testing.T) {
	w := newFan(t, 2)
	d := w.desired(0)
	w.apply(t, d)
	for _, l := range target(d, State{}).Links {
		w.node.IP(t, "link del "+l.Name)
	}
	if left := w.node.Run(t, "ip", "nexthop"); left != "" {
		t.Errorf("nexthops left:\n%s", left)
	}
	for _, family := range []string{"-4", "-6"} {
		for line := range strings.Lines(w.node.Run(t, "ip", family, "route", "show", "table", "6091")) {
			if !strings.HasPrefix(line, "blackhole ") {
				t.Errorf("route left: %s", line)
			}
		}
	}
	observed, err := w.kernel.Observe()
	must(t, err)
	w.kernel.nexthops.groups = map[uint32]heldGroup{} // as read before the links were deleted
	for _, g := range target(d, observed).Groups {
		w.kernel.nexthops.groups[g.ID] = heldGroup{g.Members, true}
	}
	_, err = w.kernel.Apply(Plan(d, observed))
	must(t, err)
	w.send(t, w.flows(t, 20))
	if groups := w.node.Run(t, "ip", "nexthop", "show", "groups"); strings.Count(groups, fmt.Sprintf(" buckets %d ", groupBuckets)) != 2 {
		t.Errorf("the groups are\n%s", groups)
	}
}

func TestFindWayNamesTheGatewaysOfAFlow(t *testing.T) {
	w := newFan(t, 3)
	w.apply(t, w.desired(0))
	flows := w.flows(t, 40)
	for _, policy := range []string{"0", "1"} {
		must(t, w.node.In(func() error { return writeSysctl("ipv4/fib_multipath_hash_policy", policy) }))
		for source, gateway := range w.send(t, flows) {
			from := netip.MustParseAddrPort(source).Addr()
			to := netip.MustParseAddr("10.71.2.9")
			if from.Is6() {
				to = netip.MustParseAddr("fd00:71::9")
			}
			var way Way
			must(t, w.node.In(func() (err error) { way, err = FindWay(to, from); return err }))
			theirs := desiredOf(3, 0).Gateways[gateway].Addresses
			if exact := policy == "0" && from.Is4(); way.Any == exact || exact && !slices.Contains(theirs, way.Via) || len(way.Gateways) != 3 || way.Overlay == nil {
				t.Errorf("policy %s: %s reached gateway %d, but the answer is %+v", policy, source, gateway, way)
			}
		}
	}
}

// An earlier version of the node helper set routes without nexthops.
func TestF3_AnUpgradeFromRoutesToNexthopsLosesNothing(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.kernel.nexthops.missing = true
		w.apply(t, w.desired())
		pings := map[string]func() string{}
		for _, to := range []string{"10.71.2.9", "fd00:71::9"} {
			w.pod.Run(t, "ping", "-c1", "-W5", to)
			pings[to] = w.pod.Start(t, "ping", "-q", "-i0.01", "-c100", "-W5", to)
		}
		for range 5 { // of 1 second of pings
			time.Sleep(50 * time.Millisecond)
			w.kernel.nexthops.missing = false
			w.apply(t, w.desired())
			time.Sleep(50 * time.Millisecond)
			w.kernel.nexthops.missing = true
			w.apply(t, w.desired())
		}
		for to, ping := range pings {
			if out := ping(); !strings.Contains(out, " 0% packet loss") {
				t.Errorf("packets to %s were lost:\n%s", to, out)
			}
		}
	})
}
