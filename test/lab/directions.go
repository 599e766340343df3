package lab

import (
	"net/netip"
	"testing"
)

// Direction is one direction between the pods in one address family.
type Direction struct {
	From, To *Namespace // pods
	Src      netip.Addr // of the sending pod
	SrcSeen  netip.Addr // its address for the receiving pod
	Seen     netip.Addr // the receiving pod's address for the sending one
	Real     netip.Addr // its real address
	Site     *Site      // of the sending pod
	FarSite  *Site      // of the receiving pod
}

// ForEachDirection runs f as a subtest for A to B and B to A, IPv4 and IPv6.
func ForEachDirection(t *testing.T, top *Topology, f func(t *testing.T, w Direction)) {
	t.Helper()
	for _, w := range top.Directions() {
		t.Run(w.Name(), func(t *testing.T) { f(t, w) })
	}
}

// Directions returns both directions between the pods, in both families.
func (top *Topology) Directions() (directions []Direction) {
	for _, s := range []*Site{top.A, top.B} {
		far := top.Other(s)
		directions = append(directions, NewDirection(s, far, s.Pod4, far.Pod4), NewDirection(s, far, s.Pod6, far.Pod6))
	}
	return directions
}

// NewDirection returns the direction from an address of s to an address of the other site.
func NewDirection(s, far *Site, src, dst netip.Addr) Direction {
	return Direction{From: s.Pod, To: far.Pod, Src: src, SrcSeen: far.Sees(src), Seen: s.Sees(dst), Real: dst, Site: s, FarSite: far}
}

// Name is the name of the subtest for the direction.
func (w Direction) Name() string {
	return [2]string{"IPv4", "IPv6"}[Family(w.Src)] + "_" + w.Site.Name + "_to_" + w.FarSite.Name
}
