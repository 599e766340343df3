//go:build linux

package node

import (
	"net/netip"
	"slices"
)

// Sources defines the source addresses of packets that leave the node or are delivered to
// its pods. CNIs masquerade packets from pods to addresses that they do not know, which
// includes other clusters; some also masquerade packets to pods (OVN-Kubernetes, on
// ovn-k8s-mp0). The first source NAT of a connection decides, so a chain shortly before the
// CNI's sets it (postrouting, priority 99):
//
//   - packets from a pod that leave by Strait's links are "translated" to the address that
//     they already have;
//   - other packets that leave by Strait's links get the internal address of the node, the
//     only other source that gateways accept from it;
//   - frames from gateways on this node to other nodes keep the address of their pod, because
//     the other node's kernel would reject any other source;
//   - packets from other clusters keep their source, so that NetworkPolicies and servers see
//     it. Connections to a NodePort or ClusterIP are excluded: kube-proxy must masquerade them,
//     because their replies have to return to this node.
//
// This adds no cost: where a CNI masquerades, every connection is tracked and has a NAT
// binding, and this chain only sets the binding. Excluding these packets from connection
// tracking (notrack) would save the entry, but then replies to a pod that connected to a
// ClusterIP with endpoints in another cluster would not be translated back, and network
// policies that allow replies would not match them.
type Sources struct {
	Pods     []netip.Prefix // sorted, without overlaps
	Internal []netip.Addr   // of the node
	Remote   []netip.Prefix // of other clusters, like Pods
}

func (d Desired) sources() Sources {
	s := Sources{Pods: widest(d.Pods), Internal: slices.Clone(d.Addresses)}
	slices.SortFunc(s.Internal, netip.Addr.Compare)
	var remote []netip.Prefix
	for _, r := range d.Routes {
		remote = append(remote, r.Prefix)
	}
	s.Remote = widest(remote)
	return s
}

// widest returns the prefixes that are not contained in others, sorted.
func widest(all []netip.Prefix) (kept []netip.Prefix) {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, netip.Prefix.Compare) // a CIDR sorts before those that it contains
	for _, p := range sorted {
		if len(kept) == 0 || !kept[len(kept)-1].Overlaps(p) {
			kept = append(kept, p)
		}
	}
	return kept
}
