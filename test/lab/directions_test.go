//go:build lab || nightly

package lab

import (
	"net/netip"
	"testing"
)

// direction is one direction between the pods in one address family.
type direction struct {
	from, to *namespace // pods
	src      netip.Addr // of the sending pod
	srcSeen  netip.Addr // its address for the receiving pod
	seen     netip.Addr // the receiving pod's address for the sending one
	real     netip.Addr // its real address
	site     *site      // of the sending pod
	farSite  *site      // of the receiving pod
}

// forEachDirection runs f as a subtest for A to B and B to A, IPv4 and IPv6.
func forEachDirection(t *testing.T, top *topology, f func(t *testing.T, w direction)) {
	t.Helper()
	for _, w := range top.directions() {
		t.Run(w.name(), func(t *testing.T) { f(t, w) })
	}
}

func (top *topology) directions() (directions []direction) {
	for _, s := range []*site{top.a, top.b} {
		far := top.other(s)
		directions = append(directions, newDirection(s, far, s.pod4, far.pod4), newDirection(s, far, s.pod6, far.pod6))
	}
	return directions
}

func newDirection(s, far *site, src, dst netip.Addr) direction {
	return direction{from: s.pod, to: far.pod, src: src, srcSeen: far.sees(src), seen: s.sees(dst), real: dst, site: s, farSite: far}
}

func (w direction) name() string {
	return [2]string{"IPv4", "IPv6"}[family(w.src)] + "_" + w.site.name + "_to_" + w.farSite.name
}
