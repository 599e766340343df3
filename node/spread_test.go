package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// desiredOf is a node with some gateways of both families in one group, and some routes.
func desiredOf(gateways, routes int) Desired {
	d := Desired{Addresses: addrs("10.80.0.11", "fd00:80::11"), Groups: []Group{{Name: "b", MTU: 1400}}}
	for i := range gateways {
		name := fmt.Sprint("b-", i)
		d.Gateways = append(d.Gateways, Gateway{
			Name: name, Underlay: netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)}),
			Addresses: addrs(fmt.Sprint("10.80.0.", i+1), fmt.Sprintf("fd00:80::%x", i+1)),
			VNI:       uint32(257 + i), Encapsulation: VXLAN, MTU: 1400,
		})
		d.Groups[0].Gateways = append(d.Groups[0].Gateways, name)
	}
	for i := range routes {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(100 + i/256), byte(i), 0}), 24)
		if i%2 == 1 {
			p = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, 0, 0x71, byte(i >> 8), byte(i)}), 48)
		}
		d.Routes = append(d.Routes, Route{p, "b"})
	}
	return d
}

// without returns the state with a gateway taken out of the group.
func (d Desired) without(gateway string) Desired {
	g := d.Groups[0]
	g.Gateways = slices.DeleteFunc(slices.Clone(g.Gateways), func(name string) bool { return name == gateway })
	d.Groups = []Group{g}
	return d
}

func TestOneMessagePerFamilyTakesAGatewayOutAndIn(t *testing.T) {
	t.Parallel()
	d, m := desiredOf(4, 1000), &model{}
	run(t, m, Plan(d, m.observe()))
	for range 2 {
		for _, to := range []Desired{d.without("b-2"), d} {
			plan := Plan(to, m.observe())
			if len(plan) != 2 || strings.Count(text(plan), "set nexthop ") != 2 {
				t.Fatalf("%d operations, want one for each family:\n%s", len(plan), text(plan))
			}
			run(t, m, plan)
		}
	}
}

func TestAGatewayThatMovesKeepsItsPlaceInTheGroup(t *testing.T) {
	t.Parallel()
	d, m := desiredOf(2, 10), &model{}
	run(t, m, Plan(d, m.observe()))
	d.Gateways = slices.Clone(d.Gateways)
	d.Gateways[1].Encapsulation = Geneve // another link
	for _, o := range Plan(d, m.observe()) {
		if strings.Contains(o.String(), " group ") || strings.Contains(o.String(), "set route 10.1") {
			t.Errorf("%s", o)
		}
	}
}

// Without nexthop objects (before Linux 5.3), each route has the next hops itself.
func TestAnOldKernelHasMultipathRoutes(t *testing.T) {
	t.Parallel()
	d, m := desiredOf(2, 1), &model{State{Multipath: true}}
	run(t, m, Plan(d, m.observe()))
	link := func(i int) string { return target(d, State{}).Nexthops[i].Link }
	a, b := link(0), link(1)
	want := fmt.Sprintf("set route 10.100.0.0/24 via 10.80.0.1 dev %s and via 10.80.0.2 dev %s src 10.80.0.11 mtu 1400 metric 100\n", a, b)
	if got := text(Plan(d, overlapped(State{Multipath: true}, nil))); !strings.Contains(got, want) || strings.Contains(got, "nexthop") {
		t.Errorf("plan:\n%s\nwant:\n%s", got, want)
	}
	want = fmt.Sprintf("set route 10.100.0.0/24 via 10.80.0.1 dev %s src 10.80.0.11 mtu 1400 metric 100\n", a)
	if got := text(Plan(d.without("b-1"), m.observe())); got != want {
		t.Errorf("plan:\n%s\nwant:\n%s", got, want)
	}
}

func TestNexthopsAvoidIDsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	d := desiredOf(2, 2)
	free := target(d, State{})
	foreign := State{Foreign: []uint32{free.Nexthops[0].ID, free.Groups[0].ID, free.Groups[0].ID + 1}}
	m := &model{foreign}
	run(t, m, Plan(d, m.observe())) // the model refuses their IDs
	if left := Plan(d, m.observe()); len(left) > 0 {
		t.Errorf("operations left:\n%s", text(left))
	}
	for _, id := range m.Foreign {
		if !ownID(id) {
			t.Errorf("%d is not in the range", id)
		}
	}
	for _, r := range d.Routes {
		if !m.served(r.Prefix) {
			t.Errorf("%s is not served", r.Prefix)
		}
	}
	run(t, m, Removal(m.observe()))
	if len(m.Foreign) != 3 || len(m.Nexthops)+len(m.Groups) > 0 {
		t.Errorf("after the removal: %+v", m.State)
	}
}

// The gateways that are out count as well: routes keep their MTU when one leaves.
func TestRoutesOfAGroupHaveItsMTU(t *testing.T) {
	t.Parallel()
	d := desiredOf(2, 2)
	d.Groups[0].MTU = 1200
	for _, r := range target(d, State{}).Routes {
		if want := map[bool]int{true: 1200, false: minMTU6}[r.Prefix.Addr().Is4()]; r.Group != 0 && r.MTU != want {
			t.Errorf("%s, want MTU %d", r, want)
		}
	}
}

// Messages of the kernel, and some that it never sends: none makes the readers panic.
func FuzzRoutingMessages(f *testing.F) {
	route, err := groupRoute(KernelRoute{Prefix: netip.MustParsePrefix("10.71.0.0/16"), Metric: 100, Group: nexthopIDs, Source: netip.MustParseAddr("10.80.0.11"), MTU: 1400})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(route.Data)
	f.Add(slices.Concat(route.Data, attributeOf(unix.RTA_MULTIPATH, "\x10\x00\x00\x00\x07\x00\x00\x00\x08\x00\x05\x00\x0a\x50\x00\x01\x10\x00\x00\x00\x08\x00\x00\x00")))
	f.Add(slices.Concat(make([]byte, unix.SizeofNhmsg), attributeOf(unix.NHA_ID, "\x01\x00\x00\x50"), attributeOf(unix.NHA_GROUP, "\x02\x00\x00\x50\x00\x00\x00\x00")))
	f.Fuzz(func(t *testing.T, b []byte) {
		before := slices.Clone(b)
		if r, ok := parseRoute(b); ok && !r.prefix.IsValid() {
			t.Errorf("route %+v", r)
		}
		if n, ok := parseNexthop(b); ok && n.id == 0 {
			t.Errorf("nexthop %+v", n)
		}
		if !slices.Equal(before, b) {
			t.Error("the message was changed")
		}
	})
}

func TestARouteIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, p := range prefixes("10.71.0.0/16", "fd00:71::/48") {
		want := KernelRoute{Prefix: p, Metric: metricOverlay, Group: nexthopIDs | 7, Source: familyOf(p.Addr()).of(addrs("10.80.0.11", "fd00:80::11")), MTU: 1400}
		m, err := groupRoute(want)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := parseRoute(m.Data)
		if got := r.route(nil); !ok || !got.equal(want) || r.table != routeTable || r.protocol != routeProtocol {
			t.Errorf("read %+v, want %+v", got, want)
		}
	}
}
