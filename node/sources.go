package node

import (
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
)

// Sources defines the source addresses of packets that leave the node. CNIs masquerade
// packets from pods to addresses that they do not know, which includes other clusters. The
// first source NAT of a connection decides, so a chain shortly before the CNI's sets it
// (postrouting, priority 99):
//
//   - packets from a pod that leave by Strait's links are "translated" to the address that
//     they already have;
//   - other packets that leave by Strait's links get the internal address of the node, the
//     only other source that gateways accept from it;
//   - frames from gateways on this node to other nodes keep the address of their pod, because
//     the other node's kernel would reject any other source.
//
// This adds no cost: where a CNI masquerades, every connection is tracked and has a NAT
// binding, and this chain only sets the binding. Excluding these packets from connection
// tracking (notrack) would save the entry, but then replies to a pod that connected to a
// ClusterIP with endpoints in another cluster would not be translated back, and network
// policies that allow replies would not match them.
type Sources struct {
	Pods     []netip.Prefix // sorted, without overlaps
	Internal []netip.Addr   // of the node
}

// sourcesVersion changes when the rules made from a Sources change.
const sourcesVersion = 2

func (d Desired) sources() Sources {
	s := Sources{Internal: slices.Clone(d.Addresses)}
	slices.SortFunc(s.Internal, netip.Addr.Compare)
	sorted := slices.Clone(d.Pods)
	slices.SortFunc(sorted, netip.Prefix.Compare) // a CIDR sorts before those that it contains
	for _, p := range sorted {
		if len(s.Pods) == 0 || !s.Pods[len(s.Pods)-1].Overlaps(p) {
			s.Pods = append(s.Pods, p)
		}
	}
	return s
}

// fingerprint identifies the content of a Sources. Each rule in the kernel carries it.
func (s Sources) fingerprint() string {
	sum := sha256.Sum256(fmt.Append(nil, sourcesVersion, s.Pods, s.Internal))
	return fmt.Sprintf("%x", sum[:8])
}
