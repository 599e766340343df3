//go:build lab

package node

import (
	"net/netip"
	"strings"
	"testing"
)

// T7 on a real kernel: each way in which a node may route a destination itself.
func TestT7_TheKernelKeepsItsOwnDestinations(t *testing.T) {
	for _, row := range []struct {
		name, setUp string
		refused     string // of the two prefixes of world.desired; empty: none
		says        string
	}{
		{"nothing", "", "", ""},
		{"a subnet on link", "addr add 10.71.3.1/24 dev gw1", "10.71.0.0/16", "route to 10.71.3.0/24 dev gw1 table 254"},
		{"a wider route of a VPN", "route add 10.64.0.0/10 via 192.0.2.12", "10.71.0.0/16", "route to 10.64.0.0/10 via 192.0.2.12 dev gw1 table 254"},
		{"the same prefix", "route add 10.71.0.0/16 via 192.0.2.12", "10.71.0.0/16", "route to 10.71.0.0/16 via 192.0.2.12 dev gw1 table 254"},
		{"a single host", "route add 10.71.2.9 via 192.0.2.12", "10.71.0.0/16", "route to 10.71.2.9/32 via 192.0.2.12 dev gw1 table 254"},
		{"a destination that is blocked", "route add unreachable 10.0.0.0/8", "10.71.0.0/16", "route to 10.0.0.0/8 table 254"},
		{"another table", "route add 10.71.0.0/16 via 192.0.2.12 table 100\nrule add from 10.0.0.0/16 lookup 100 pref 1000", "10.71.0.0/16", "route to 10.71.0.0/16 via 192.0.2.12 dev gw1 table 100"},
		{"a rule for the destination", "route add default via 192.0.2.12 table 100\nrule add to 10.71.2.0/24 lookup 100 pref 1000", "10.71.0.0/16", "rule 1000 to 10.71.2.0/24 table 100"},
		{"IPv6", "route add fd00::/8 dev gw1", "fd00:71::/48", "route to fd00::/8 dev gw1 table 254"},

		{"a table that no rule looks up", "route add 10.71.0.0/16 via 192.0.2.12 table 100", "", ""},
		{"a table before Strait's", "route add 10.71.0.0/16 via 192.0.2.12 table 100\nrule add iif gw1 lookup 100 pref 50", "", ""},
		{"the default in two halves", "route add 0.0.0.0/1 via 192.0.2.12\nroute add 128.0.0.0/1 via 192.0.2.12", "", ""},
		{"a route to another destination", "route add 10.72.0.0/16 via 192.0.2.12", "", ""},
		{"an address of the node itself", "addr add 10.71.3.1/32 dev lo", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, Support{})
			if row.setUp != "" {
				w.node.IP(t, row.setUp)
			}
			for _, stage := range []string{"first", "again", "after a restart"} {
				if stage == "after a restart" {
					w.kernel = openIn(t, w.node)
				}
				w.apply(t, w.desired())
				observed, err := w.kernel.observeFor(w.desired())
				must(t, err)
				over := takeovers(w.desired(), observed)
				if row.refused == "" {
					if len(over) > 0 {
						t.Fatalf("%s: %v", stage, over)
					}
					continue
				}
				if len(over) != 1 || !over[0].Refused || over[0].Prefix.String() != row.refused || over[0].Destination != row.says {
					t.Fatalf("%s: %+v, want %s because of %s", stage, over, row.refused, row.says)
				}
				family := "-4"
				if strings.Contains(row.refused, ":") {
					family = "-6"
				}
				if routes := w.node.Run(t, "ip", family, "route", "show", "table", "6091"); strings.Contains(routes, row.refused) {
					t.Fatalf("%s: Strait routes it:\n%s", stage, routes)
				}
			}
		})
	}
}

func TestT14_ARouteThatAppearsLaterTakesNoPacketOfAPeering(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.apply(t, w.desired())
		w.node.IP(t, "route add 10.71.2.9 via 192.0.2.10") // to the machine of the gateway, unencrypted
		w.apply(t, w.desired())
		observed, err := w.kernel.observeFor(w.desired())
		must(t, err)
		over := takeovers(w.desired(), observed)
		if len(over) != 1 || over[0].Refused || over[0].Prefix != netip.MustParsePrefix("10.71.0.0/16") {
			t.Errorf("takeovers %+v", over)
		}
		if way := w.way(t, "10.71.2.9", "10.0.1.5"); way.Overlay == nil {
			t.Errorf("packets take the later route: %+v", way)
		}
	})
}
