package node

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

func gatewayB() Gateway {
	return Gateway{
		Name: "b-0", Underlay: netip.MustParseAddr("192.0.2.10"), Addresses: addrs("10.80.0.1"),
		VNI: 257, Encapsulation: Geneve, MTU: 1420, Remote: prefixes("10.71.0.0/16"),
	}
}

func desiredB() Desired {
	return Desired{
		Addresses: addrs("10.80.0.11"), Pods: prefixes("10.0.0.0/16"), LocalPods: prefixes("10.0.1.0/24"), Gateways: []Gateway{gatewayB()},
		Groups: []Group{{Name: "b", Gateways: []string{"b-0"}, MTU: 1420}},
		Routes: []Route{{netip.MustParsePrefix("10.71.0.0/16"), "b"}},
	}
}

// The order of a plan matters, so the relevant cases are written out.
func TestPlanOrder(t *testing.T) {
	t.Parallel()
	none := func(*Desired) {}
	for _, c := range []struct {
		name     string
		from, to func(*Desired) // changes of the example; from nil: an untouched kernel
		want     string
	}{
		{"the first gateway", nil, none, `
			set route blackhole 10.71.0.0/16 metric 10000
			add IPv4 rule lookup 6091
			set nftables table strait pods [10.0.0.0/16] internal [10.80.0.11] remote [10.71.0.0/16] frames [192.0.2.10/257] local pods [10.0.1.0/24] from strait-OLD [10.71.0.0/16 10.80.0.1/32]
			add link strait-OLD geneve id 257 remote 192.0.2.10 dstport 6091 address 0a:58:0a:50:00:0b mtu 1420
			set link strait-OLD rp_filter 2
			add address 10.80.0.11/32 dev strait-OLD
			set neighbour 10.80.0.1 lladdr 0a:58:0a:50:00:01 dev strait-OLD
			set link strait-OLD up
			set nexthop 1342177537 via 10.80.0.1 dev strait-OLD
			set nexthop GROUP group [1342177537]
			set route 10.71.0.0/16 nexthop GROUP src 10.80.0.11 mtu 1420 metric 100
			set route 10.80.0.1/32 dev strait-OLD src 10.80.0.11 mtu 1420 metric 100`},
		{"nothing new", none, none, ""},
		{"the gateway changes its address", none, func(d *Desired) { d.Gateways[0].Underlay = netip.MustParseAddr("192.0.2.12") }, `
			set nftables table strait pods [10.0.0.0/16] internal [10.80.0.11] remote [10.71.0.0/16] frames [192.0.2.12/257] local pods [10.0.1.0/24] from strait-NEW [10.71.0.0/16 10.80.0.1/32]
			add link strait-NEW geneve id 257 remote 192.0.2.12 dstport 6091 address 0a:58:0a:50:00:0b mtu 1420
			set link strait-NEW rp_filter 2
			add address 10.80.0.11/32 dev strait-NEW
			set neighbour 10.80.0.1 lladdr 0a:58:0a:50:00:01 dev strait-NEW
			set link strait-NEW up
			set nexthop 1342177537 via 10.80.0.1 dev strait-NEW
			set route 10.80.0.1/32 dev strait-NEW src 10.80.0.11 mtu 1420 metric 100
			delete link strait-OLD`},
		{"the gateway changes its address, with VXLAN",
			func(d *Desired) { d.Gateways[0].Encapsulation = VXLAN },
			func(d *Desired) {
				d.Gateways[0].Encapsulation, d.Gateways[0].Underlay = VXLAN, netip.MustParseAddr("192.0.2.12")
			}, `
			set nftables table strait pods [10.0.0.0/16] internal [10.80.0.11] remote [10.71.0.0/16] frames [192.0.2.12/257] local pods [10.0.1.0/24] from strait-OLD [10.71.0.0/16 10.80.0.1/32]
			set forwarding 0a:58:0a:50:00:01 dst 192.0.2.12 dev strait-OLD`},
		{"the first gateway, in userspace", nil, func(d *Desired) { d.Gateways[0].Encapsulation = Userspace }, `
			set route blackhole 10.71.0.0/16 metric 10000
			add IPv4 rule lookup 6091
			set nftables table strait pods [10.0.0.0/16] internal [10.80.0.11] remote [10.71.0.0/16] frames [192.0.2.10/257] local pods [10.0.1.0/24] from strait-OLD [10.71.0.0/16 10.80.0.1/32]
			add link strait-OLD tap address 0a:58:0a:50:00:0b mtu 1420
			serve link strait-OLD id 257 remote 192.0.2.10 dstport 6091
			set link strait-OLD rp_filter 2
			add address 10.80.0.11/32 dev strait-OLD
			set neighbour 10.80.0.1 lladdr 0a:58:0a:50:00:01 dev strait-OLD
			set link strait-OLD up
			set nexthop 1342177537 via 10.80.0.1 dev strait-OLD
			set nexthop GROUP group [1342177537]
			set route 10.71.0.0/16 nexthop GROUP src 10.80.0.11 mtu 1420 metric 100
			set route 10.80.0.1/32 dev strait-OLD src 10.80.0.11 mtu 1420 metric 100`},
		{"the gateway changes its address, in userspace",
			func(d *Desired) { d.Gateways[0].Encapsulation = Userspace },
			func(d *Desired) {
				d.Gateways[0].Encapsulation, d.Gateways[0].Underlay = Userspace, netip.MustParseAddr("192.0.2.12")
			}, `
			set nftables table strait pods [10.0.0.0/16] internal [10.80.0.11] remote [10.71.0.0/16] frames [192.0.2.12/257] local pods [10.0.1.0/24] from strait-OLD [10.71.0.0/16 10.80.0.1/32]
			serve link strait-OLD id 257 remote 192.0.2.12 dstport 6091`},
		{"a smaller MTU", none, func(d *Desired) { d.Gateways[0].MTU, d.Groups[0].MTU = 1300, 1300 }, `
			set link strait-OLD mtu 1300
			set route 10.71.0.0/16 nexthop GROUP src 10.80.0.11 mtu 1300 metric 100
			set route 10.80.0.1/32 dev strait-OLD src 10.80.0.11 mtu 1300 metric 100`},
		{"no gateway left", none, func(d *Desired) { d.Gateways, d.Groups[0].Gateways = nil, nil }, `
			set nftables table strait pods [10.0.0.0/16] internal [10.80.0.11] remote [10.71.0.0/16] frames [] local pods [10.0.1.0/24]
			delete route 10.71.0.0/16 nexthop GROUP src 10.80.0.11 mtu 1420 metric 100
			delete route 10.80.0.1/32 dev strait-OLD src 10.80.0.11 mtu 1420 metric 100
			delete nexthop GROUP
			delete nexthop 1342177537
			delete link strait-OLD`},
		{"the peering is gone", none, func(d *Desired) { d.Gateways, d.Groups, d.Routes = nil, nil, nil }, `
			set nftables table strait pods [10.0.0.0/16] internal [10.80.0.11] remote [] frames [] local pods [10.0.1.0/24]
			delete route 10.71.0.0/16 nexthop GROUP src 10.80.0.11 mtu 1420 metric 100
			delete route 10.80.0.1/32 dev strait-OLD src 10.80.0.11 mtu 1420 metric 100
			delete nexthop GROUP
			delete nexthop 1342177537
			delete link strait-OLD
			delete route blackhole 10.71.0.0/16 metric 10000`},
		{"everything is to be removed", none, func(d *Desired) { *d = Desired{Nothing: true} }, `
			delete route 10.71.0.0/16 nexthop GROUP src 10.80.0.11 mtu 1420 metric 100
			delete route 10.80.0.1/32 dev strait-OLD src 10.80.0.11 mtu 1420 metric 100
			delete nexthop GROUP
			delete nexthop 1342177537
			delete link strait-OLD
			delete route blackhole 10.71.0.0/16 metric 10000
			delete IPv4 rule lookup 6091
			delete nftables table strait`},
		{"the node changes its address", none, func(d *Desired) { d.Addresses = addrs("10.80.0.12") }, `
			set nftables table strait pods [10.0.0.0/16] internal [10.80.0.12] remote [10.71.0.0/16] frames [192.0.2.10/257] local pods [10.0.1.0/24] from strait-OLD [10.71.0.0/16 10.80.0.1/32]
			set link strait-OLD address 0a:58:0a:50:00:0c
			add address 10.80.0.12/32 dev strait-OLD
			set neighbour 10.80.0.1 lladdr 0a:58:0a:50:00:01 dev strait-OLD
			set route 10.71.0.0/16 nexthop GROUP src 10.80.0.12 mtu 1420 metric 100
			set route 10.80.0.1/32 dev strait-OLD src 10.80.0.12 mtu 1420 metric 100
			delete address 10.80.0.11/32 dev strait-OLD`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, old := &model{}, ""
			if c.from != nil {
				d := desiredB()
				c.from(&d)
				run(t, m, Plan(d, m.observe()))
				old = m.Links[0].Name
			}
			d := desiredB()
			c.to(&d)
			got := text(Plan(d, m.observe()))
			for _, l := range target(d, State{}).Links {
				if old == "" {
					old = l.Name
				}
				if l.Name != old {
					got = strings.ReplaceAll(got, l.Name, "strait-NEW")
				}
			}
			got = strings.ReplaceAll(got, old, "strait-OLD")
			got = strings.ReplaceAll(got, fmt.Sprint(nexthopIDs|kindGroup<<idBits|hashOf("b")&(1<<idBits-1)), "GROUP")
			if want := strings.ReplaceAll(strings.TrimPrefix(c.want, "\n"), "\t", ""); strings.TrimSuffix(got, "\n") != want {
				t.Errorf("plan:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func run(t *testing.T, m *model, operations []Operation) {
	t.Helper()
	for _, o := range operations {
		if err := o.do(m); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
	}
}

// From any state to any other: one plan reaches it, and no prefix that was fenced opens in
// between, and every prefix is fenced before the first packet can leave.
func TestT14_PlanArrivesFromAnywhereAndNeverLeaks(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		m := &model{State{Multipath: random.IntN(4) == 0}}
		run(t, m, Plan(randomDesired(random), m.observe()))
		damage(random, m)
		d := randomDesired(random)
		fenced := map[netip.Prefix]bool{}
		for _, o := range Plan(d, m.observe()) {
			if err := o.do(m); err != nil {
				t.Fatalf("%s: %v", o, err)
			}
			for _, r := range d.Routes {
				now := m.fenced(r.Prefix)
				if fenced[r.Prefix] && !now {
					t.Fatalf("%s is open after: %s", r.Prefix, o)
				}
				fenced[r.Prefix] = now
			}
		}
		if left := Plan(d, m.observe()); len(left) > 0 {
			t.Fatalf("left to do:\n%s", text(left))
		}
		for _, r := range d.Routes {
			if !m.fenced(r.Prefix) {
				t.Fatalf("%s is open", r.Prefix)
			}
		}
	}
}

// Between two valid states, served prefixes stay served throughout: gateways move, routes
// move between gateways, MTUs and encapsulations change.
func TestPlanLosesNoPacketBetweenValidStates(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	checked := 0
	for range 3000 {
		m := &model{State{Multipath: random.IntN(4) == 0}}
		from, to := randomDesired(random), randomDesired(random)
		to.Addresses = from.Addresses // a new address changes the node's MAC address, which loses packets
		if to.Validate() != nil {
			continue
		}
		run(t, m, Plan(from, m.observe()))
		served := map[netip.Prefix]bool{}
		for _, r := range to.Routes {
			served[r.Prefix] = m.served(r.Prefix)
		}
		end := m.clone()
		run(t, end, Plan(to, m.observe()))
		for _, o := range Plan(to, m.observe()) {
			run(t, m, []Operation{o})
			for p, was := range served {
				if was && end.served(p) && !m.served(p) {
					t.Fatalf("%s is not served after: %s", p, o)
				}
				if was {
					checked++
				}
			}
		}
	}
	if checked < 1000 {
		t.Errorf("only %d steps could lose packets", checked)
	}
}

func TestRemovalLeavesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		m := &model{State{Multipath: random.IntN(4) == 0}}
		run(t, m, Plan(randomDesired(random), m.observe()))
		damage(random, m)
		run(t, m, Removal(m.observe()))
		if left := Removal(m.observe()); len(left) > 0 {
			t.Fatalf("left:\n%s", text(left))
		}
	}
}

func addrs(ss ...string) (as []netip.Addr) {
	for _, s := range ss {
		as = append(as, netip.MustParseAddr(s))
	}
	return as
}

func prefixes(ss ...string) (ps []netip.Prefix) {
	for _, s := range ss {
		ps = append(ps, netip.MustParsePrefix(s))
	}
	return ps
}

// text returns one line per operation.
func text(operations []Operation) string {
	var s string
	for _, o := range operations {
		s += o.String() + "\n"
	}
	return s
}
