//go:build lab || nightly

package forwarding

import (
	"net/netip"
	"regexp"
	"slices"
	"testing"

	"strait.dev/strait/test/lab"
)

// A traceroute shows every router with an address that the sending pod's cluster can
// identify: its own node and gateway by theirs, the far gateway and node by their mapped
// external addresses.
func TestTracerouteShowsBothGateways(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		f := lab.Family(w.Src)
		bridge := w.Site.Bridge4
		if f == 1 {
			bridge = w.Site.Bridge6
		}
		want := []netip.Addr{
			bridge,
			lab.GatewayInternal[f],
			w.Site.Sees(lab.GatewayExternal[f]),
			w.Site.Sees(lab.NodeExternal[f]),
			w.Seen,
		}
		// Zeros: a reply may arrive after those of later hops.
		trace := []string{"-n", "-q", "1", "-w", "60,0,0", "-m", "8", w.Seen.String()}
		for name, args := range map[string][]string{"UDP": trace, "ICMP": append([]string{"-I"}, trace...)} {
			t.Run(name, func(t *testing.T) {
				out := w.From.Run(t, "traceroute", args...)
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
