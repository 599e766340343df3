package node

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
)

// Sources says which source addresses packets have when they leave. CNIs masquerade
// what pods send to addresses that they do not know, and other clusters are such. The
// first source NAT of a connection stands, so a chain shortly before theirs settles it
// (postrouting, priority 99):
//
//   - what leaves by our links from a pod is "translated" to the address that it has;
//   - what else leaves by our links gets the internal address of the node, the only
//     other source that gateways accept from it;
//   - frames from gateways on this node to other nodes keep the address of their pod,
//     without which the other node's kernel would not take them.
//
// That costs nothing that is not there anyway: where a CNI masquerades, every
// connection is tracked and has a NAT binding, and this one binds it to what it is.
// Taking these packets out of connection tracking (notrack) would save the entry. But
// then the replies to a pod that called a ClusterIP, whose endpoint is in another
// cluster, would not find back, and network policies that let replies pass would not
// know them.
type Sources struct {
	Pods     []netip.Prefix // sorted, none in another
	Internal []netip.Addr   // of the node
}

// sourcesVersion changes with the rules that are made of a Sources.
const sourcesVersion = 2

func (d Desired) sources() Sources {
	s := Sources{Internal: slices.Clone(d.Addresses)}
	slices.SortFunc(s.Internal, netip.Addr.Compare)
	sorted := slices.Clone(d.Pods)
	slices.SortFunc(sorted, netip.Prefix.Compare) // a range comes before those in it
	for _, p := range sorted {
		if len(s.Pods) == 0 || !s.Pods[len(s.Pods)-1].Overlaps(p) {
			s.Pods = append(s.Pods, p)
		}
	}
	return s
}

// fingerprint tells a Sources from others. Each rule in the kernel bears it.
func (s Sources) fingerprint() string {
	sum := sha256.Sum256(fmt.Append(nil, sourcesVersion, s.Pods, s.Internal))
	return fmt.Sprintf("%x", sum[:8])
}
