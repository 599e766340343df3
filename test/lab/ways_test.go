//go:build lab || nightly

package lab

import (
	"net/netip"
	"testing"
)

// way is one direction between the pods in one address family.
type way struct {
	from, to *namespace // pods
	src      netip.Addr // the sending pod's own address
	srcSeen  netip.Addr // and as the receiving pod sees it
	seen     netip.Addr // the receiving pod as the sending one sees it
	real     netip.Addr // and its own address
	site     *site      // of the sending pod
	farSite  *site      // of the receiving pod
}

// forEachWay runs f as a subtest for A to B and B to A, IPv4 and IPv6.
func forEachWay(t *testing.T, top *topology, f func(t *testing.T, w way)) {
	t.Helper()
	for _, w := range top.ways() {
		t.Run(w.name(), func(t *testing.T) { f(t, w) })
	}
}

func (top *topology) ways() (ways []way) {
	for _, s := range []*site{top.a, top.b} {
		far := top.other(s)
		ways = append(ways, newWay(s, far, s.pod4, far.pod4), newWay(s, far, s.pod6, far.pod6))
	}
	return ways
}

func newWay(s, far *site, src, dst netip.Addr) way {
	return way{from: s.pod, to: far.pod, src: src, srcSeen: far.sees(src), seen: s.sees(dst), real: dst, site: s, farSite: far}
}

func (w way) name() string {
	return [2]string{"IPv4", "IPv6"}[family(w.src)] + "_" + w.site.name + "_to_" + w.farSite.name
}
