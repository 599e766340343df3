//go:build lab || nightly

package lab

import (
	"net/netip"
	"regexp"
	"slices"
	"testing"
)

// A traceroute shows every router with an address that the sending pod's cluster can
// identify: its own node and gateway by theirs, the far gateway and node by their mapped
// external addresses.
func TestTracerouteShowsBothGateways(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		f := family(w.src)
		bridge := w.site.bridge4
		if f == 1 {
			bridge = w.site.bridge6
		}
		want := []netip.Addr{
			bridge,
			gatewayInternal[f],
			w.site.sees(gatewayExternal[f]),
			w.site.sees(nodeExternal[f]),
			w.seen,
		}
		// Zeros: a reply may arrive after those of later hops.
		trace := []string{"-n", "-q", "1", "-w", "60,0,0", "-m", "8", w.seen.String()}
		for name, args := range map[string][]string{"UDP": trace, "ICMP": append([]string{"-I"}, trace...)} {
			t.Run(name, func(t *testing.T) {
				out := w.from.run(t, "traceroute", args...)
				if got := hops(out); !slices.Equal(got, want) {
					t.Errorf("hops %v, want %v\n%s", got, want, out)
				}
			})
		}
	})
}

var hopLine = regexp.MustCompile(`(?m)^ *\d+ +([0-9a-f.:]+) `)

// hops returns the addresses that traceroute printed, in order. A hop without a reply is
// missing.
func hops(out string) (addresses []netip.Addr) {
	for _, m := range hopLine.FindAllStringSubmatch(out, -1) {
		if a, err := netip.ParseAddr(m[1]); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
}
