package verify

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/internal/endpoint"
)

// shapeOf is a cluster with a gateway's node, and another one if other is true, whose pods
// have these families. The other cluster sees it in 10.N.0.0/16.
func shapeOf(id string, n byte, other bool, of ...family) shape {
	s := shape{id: id, services: map[string]map[family]service{}}
	host := byte(5)
	for _, h := range []bool{false, true} {
		for _, o := range []bool{false, true} {
			p := location{host: h, other: o, agent: agentName(h, o), seen: map[family]netip.Addr{}, unseen: map[family]string{}}
			for _, f := range families {
				p.unseen[f] = fmt.Sprintf("pods of %s have no %s address", id, f)
				if slices.Contains(of, f) {
					p.seen[f] = map[family]netip.Addr{ip4: netip.AddrFrom4([4]byte{10, n, 1, host}), ip6: netip.AddrFrom16([16]byte{0xfd, n, 15: host})}[f]
				}
			}
			if host++; o && !other {
				p = location{host: h, other: o, why: "cluster " + id + " has no ready node without a gateway of the peering"}
			}
			s.locations = append(s.locations, p)
		}
	}
	return s
}

// serve gives a cluster Services for the pods of another.
func (s *shape) serve(other shape) {
	for _, p := range other.locations {
		s.services[p.agent] = map[family]service{}
		for f := range p.seen {
			s.services[p.agent][f] = service{address: netip.AddrFrom4([4]byte{10, 96, 0, p.seen[f].AsSlice()[len(p.seen[f].AsSlice())-1]})}
		}
	}
}

// tried counts what is planned, and what is left out.
func (p plan) tried() (checks int) {
	for _, s := range p.sequences {
		checks += len(s)
	}
	return checks
}

func TestThePlanFitsTheClusters(t *testing.T) {
	// Of a pod 13 checks are made, of a Service the 9 that are no pings.
	const pair = 13 + 9
	for _, c := range []struct {
		name    string
		a, b    shape
		mtu     int
		serve   bool
		checks  int
		skipped []string // what is said of them, in any order, each once
	}{
		{"two nodes each", shapeOf("a", 72, true, ip4), shapeOf("b", 71, true, ip4), 1370, true, 4 * 2 * pair,
			[]string{"pods of a have no IPv6 address"}},
		{"both families", shapeOf("a", 72, true, ip4, ip6), shapeOf("b", 71, true, ip4, ip6), 1370, true, 2 * 4 * 2 * pair, nil},
		{"one family in one of them", shapeOf("a", 72, true, ip4, ip6), shapeOf("b", 71, true, ip6), 1370, true, 4 * 2 * pair,
			[]string{"pods of b have no IPv4 address"}},
		{"one node here", shapeOf("a", 72, false, ip4), shapeOf("b", 71, true, ip4), 1370, true, 2 * 2 * pair,
			[]string{"pods of a have no IPv6 address", "cluster a has no ready node without a gateway of the peering"}},
		{"one node there", shapeOf("a", 72, true, ip4), shapeOf("b", 71, false, ip4), 1370, true, 4 * pair,
			[]string{"pods of a have no IPv6 address", "cluster b has no ready node without a gateway of the peering"}},
		{"MTU not known", shapeOf("a", 72, false, ip4), shapeOf("b", 71, false, ip4), 0, true, 2 * (3 + 2 + 1 + 3 + 2),
			[]string{"pods of a have no IPv6 address", "cluster a has no ready node without a gateway of the peering",
				"cluster b has no ready node without a gateway of the peering", "the MTU of the peering is not known yet; see strait status"}},
		{"no Services", shapeOf("a", 72, false, ip4), shapeOf("b", 71, false, ip4), 1370, false, 2 * 13,
			[]string{"pods of a have no IPv6 address", "cluster a has no ready node without a gateway of the peering",
				"cluster b has no ready node without a gateway of the peering", "no Service for IPv4 exists"}},
		{"no node helpers here", shapeOf("a", 72, true, ip4), shapeOf("b", 71, true, ip4), 1370, true, 2 * 2 * 3,
			[]string{"pods of a have no IPv6 address", "cluster a has no node helpers: its pods reach and are reached through Services only"}},
	} {
		if c.serve {
			c.a.serve(c.b)
		}
		c.a.withoutNodes = c.name == "no node helpers here"
		p := planOf(c.a, c.b, c.mtu)
		if n := p.tried(); n != c.checks {
			t.Errorf("%s: %d checks, want %d", c.name, n, c.checks)
		}
		var said []string
		for _, s := range p.skipped {
			if s.Outcome != Skipped || s.Detail == "" {
				t.Errorf("%s: left out without a reason: %+v", c.name, s)
			}
			said = append(said, s.Detail)
		}
		slices.Sort(said)
		slices.Sort(c.skipped)
		if said = slices.Compact(said); !slices.Equal(said, c.skipped) {
			t.Errorf("%s: left out since %q, want %q", c.name, said, c.skipped)
		}
	}
}

func TestSizesAreThoseOfThePeering(t *testing.T) {
	for _, f := range families {
		headers := map[family]int{ip4: 28, ip6: 48}[f]
		for _, protocol := range []endpoint.Protocol{endpoint.UDP, endpoint.ICMP} {
			for _, c := range checksOf(protocol, f, 1370) {
				want := map[string]struct {
					size int
					mode endpoint.Mode
				}{
					"64": {64 + headers, endpoint.Whole}, "from": {64 + headers, endpoint.Whole}, "mtu": {1370, endpoint.Whole},
					"big": {1371, endpoint.TooBig}, "frag": {1570, endpoint.Fragment},
				}[strings.TrimPrefix(c.ID, string(protocol)+" ")]
				if c.Size != want.size || c.Mode != want.mode {
					t.Errorf("%s %s: %d bytes %s, want %d %s", f, c.ID, c.Size, c.Mode, want.size, want.mode)
				}
			}
		}
	}
}

func TestServersAreToSeeWhatTheirClusterCallsTheSource(t *testing.T) {
	a, b := shapeOf("a", 72, true, ip4), shapeOf("b", 71, true, ip4)
	a.serve(b)
	seen := 0
	for _, s := range planOf(a, b, 1370).sequences {
		for _, c := range s {
			if !strings.HasSuffix(c.What, " from") {
				continue
			}
			seen++
			for _, p := range a.locations {
				if p.agent == c.agent && p.seen[ip4] != c.probe.Source {
					t.Errorf("%s: wants the source %v, and the other cluster sees %v", c.Name(), c.probe.Source, p.seen[ip4])
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no check of the source")
	}
}

func TestWithOneClusterTargetsAndGatewaysAreTried(t *testing.T) {
	a := shapeOf("a", 72, false, ip4)
	gateways := map[string][]netip.Addr{"b-0": {netip.MustParseAddr("10.80.0.1")}}
	p := planOneSide("a", "b", a.locations, gateways, []netip.AddrPort{netip.MustParseAddrPort("10.71.2.9:0"), netip.MustParseAddrPort("[fd71::9]:6099")}, 1370)
	// One pod and one host: a pinged target, one with a port, and the gateway from the host.
	if n, want := p.tried(), 2*(4+4+3+4)+1; n != want {
		t.Errorf("%d checks, want %d", n, want)
	}
	if len(p.skipped) != 2 {
		t.Errorf("%d left out, want those of the two places without a node", len(p.skipped))
	}
}
