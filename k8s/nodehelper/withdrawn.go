package nodehelper

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/node"
)

// withdrawnFor is how long a range that was withdrawn stays dropped. Connections into it
// send for some time before they give up; without this they would go on by the default
// route, unencrypted, to whoever has these addresses there.
const withdrawnFor = 10 * time.Minute

// withdrawn remembers when ranges were last wanted.
type withdrawn map[netip.Prefix]time.Time

// drop adds ranges that were wanted not long ago to what is desired, to be dropped.
// Those that mean something else by now are not.
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
