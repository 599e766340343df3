package node

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// overlapped is the state of a kernel in which other programs have these destinations.
func overlapped(s State, destinations map[string]string) State {
	s.Destinations = map[netip.Prefix]string{}
	for p, text := range destinations {
		s.Destinations[netip.MustParsePrefix(p)] = text
	}
	return s
}

func TestT7_NoRouteTakesOverADestinationOfTheNode(t *testing.T) {
	t.Parallel()
	d := desiredB()
	refused := d.Routes[0].Prefix
	empty := overlapped(State{}, map[string]string{refused.String(): "route to 10.64.0.0/10 dev wg0 table 254"})
	plan := text(Plan(d, empty))
	if strings.Contains(plan, refused.String()) || !strings.Contains(plan, "add link") {
		t.Errorf("the plan routes %s, or nothing at all:\n%s", refused, plan)
	}
	m := &model{}
	run(t, m, Plan(d, empty))
	for _, r := range d.Routes[1:] {
		if !m.served(r.Prefix) {
			t.Errorf("%s is not routed", r.Prefix)
		}
	}
	after := overlapped(m.observe(), map[string]string{refused.String(): "route to 10.64.0.0/10 dev wg0 table 254"})
	if left := Plan(d, after); len(left) > 0 {
		t.Errorf("operations left:\n%s", text(left))
	}
	want := []Takeover{{refused, "route to 10.64.0.0/10 dev wg0 table 254", true}}
	if got := takeovers(d, after); !slices.Equal(got, want) {
		t.Errorf("takeovers %v, want %v", got, want)
	}
	if got := want[0].String(); got != refused.String()+" is not routed to gateways, because the node has route to 10.64.0.0/10 dev wg0 table 254" {
		t.Error(got)
	}
	run(t, m, Plan(d, m.observe())) // the destination is gone
	if !m.served(refused) {
		t.Errorf("%s is not routed without the destination", refused)
	}
}

// A destination that appears later does not divert the packets of a peering.
func TestT14_AnInstalledRouteStaysWhenADestinationAppears(t *testing.T) {
	t.Parallel()
	d, m := desiredB(), &model{}
	run(t, m, Plan(d, m.observe()))
	held := d.Routes[0].Prefix
	later := map[string]string{held.String(): "route to " + held.String() + " via 192.0.2.66 dev eth0 table 254"}
	if left := Plan(d, overlapped(m.observe(), later)); len(left) > 0 {
		t.Errorf("operations:\n%s", text(left))
	}
	over := takeovers(d, overlapped(m.observe(), later))
	if len(over) != 1 || over[0].Refused || !strings.HasSuffix(over[0].String(), "which appeared later") {
		t.Errorf("takeovers %v", over)
	}
	d.Routes[0].Group = "" // its gateway is gone: the blackhole stays
	run(t, m, Plan(d, overlapped(m.observe(), later)))
	if !m.fenced(held) || m.served(held) {
		t.Error("packets follow the later route")
	}
}

func TestTakeoversAreReportedWhenTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := startKeeper(t)
		over := []Takeover{{netip.MustParsePrefix("10.71.0.0/16"), "route to 10.0.0.0/8 dev wg0 table 254", true}}
		set := func(to []Takeover) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.over = to
		}
		set(over)
		_, reports := k.after(5 * resync)
		if len(reports) != 1 || !slices.Equal(reports[0].Takeovers, over) {
			t.Fatalf("reports %+v", reports)
		}
		k.mu.Lock()
		k.refuses = 1
		k.mu.Unlock()
		_, reports = k.after(resync)
		for _, r := range reports[1:] {
			if !slices.Equal(r.Takeovers, over) {
				t.Errorf("a failure ends them: %+v", r)
			}
		}
		n := len(reports)
		set(nil)
		if _, reports = k.after(5 * resync); len(reports) != n+1 || len(reports[n].Takeovers) > 0 {
			t.Errorf("the end of them: %+v", reports[n:])
		}
	})
}

func TestDefaultRoutesAreNoDestinations(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ to, overlaps string }{
		{"0.0.0.0/0", ""}, {"::/0", ""}, {"0.0.0.0/1", ""}, {"128.0.0.0/1", ""}, {"2000::/3", ""},
		{"10.0.0.0/8", "10.64.0.0/16 10.71.0.0/16"}, {"8.0.0.0/5", "10.64.0.0/16 10.71.0.0/16"}, {"10.71.0.0/16", "10.71.0.0/16"},
		{"10.71.9.9/32", "10.71.0.0/16"}, {"10.72.0.0/16", ""}, {"fd00::/8", "fd00:71::/48"}, {"fd00:72::/48", ""},
		{"2001:db8::/32", ""}, {"2001:db8:1::/48", ""},
	} {
		found := overlaps{lowest: map[netip.Prefix]destination{}}
		for _, p := range prefixes("10.64.0.0/16", "10.71.0.0/16", "fd00:71::/48") {
			found.prefixes.Insert(p)
		}
		if to, ok := specific(network(netip.MustParsePrefix(row.to))); ok {
			found.add(destination{prefix: to})
		}
		var got []string
		for p := range found.lowest {
			got = append(got, p.String())
		}
		slices.Sort(got)
		if fmt.Sprint(got) != "["+row.overlaps+"]" {
			t.Errorf("%s overlaps %v, want %s", row.to, got, row.overlaps)
		}
	}
	found := overlaps{lowest: map[netip.Prefix]destination{}}
	found.prefixes.Insert(netip.MustParsePrefix("10.71.0.0/16"))
	for _, to := range prefixes("10.71.8.0/24", "10.71.4.0/24", "10.71.6.0/24") {
		found.add(destination{prefix: to})
	}
	if got := found.lowest[netip.MustParsePrefix("10.71.0.0/16")].prefix.String(); got != "10.71.4.0/24" {
		t.Errorf("of several, the message has %s", got)
	}
	if _, ok := specific(nil); ok {
		t.Error("a route without a destination has one")
	}
}
