package nodehelper

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/node"
)

// withdrawnFor is the time for which packets to a withdrawn CIDR are dropped. Existing
// connections keep sending for some time; without this their packets would follow the
// default route, unencrypted, to whichever host has these addresses there.
const withdrawnFor = 10 * time.Minute

// withdrawn records when CIDRs were last desired.
type withdrawn map[netip.Prefix]time.Time

// newWithdrawn returns the record of a helper that starts. Those that an earlier helper routed may
// have been withdrawn just now.
func newWithdrawn(routed []netip.Prefix, now time.Time) withdrawn {
	w := withdrawn{}
	for _, p := range routed {
		w[p] = now
	}
	return w
}

// drop adds recently withdrawn CIDRs to the desired state, to be dropped, unless they are
// in use for another purpose by now.
func (w withdrawn) drop(out *output, now time.Time) {
	wanted := map[netip.Prefix]bool{}
	for _, r := range out.desired.Routes {
		wanted[r.Prefix], w[r.Prefix] = true, now
	}
	old := slices.SortedFunc(maps.Keys(w), netip.Prefix.Compare)
	for _, p := range old {
		_, taken := out.reserved.overlapping(p)
		switch {
		case wanted[p]:
		case taken, now.Sub(w[p]) >= withdrawnFor:
			delete(w, p)
		default:
			out.desired.Routes = append(out.desired.Routes, node.Route{Prefix: p})
		}
	}
}
