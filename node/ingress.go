//go:build linux

package node

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Ingress defines which packets the node accepts from gateways, so that a Peering reaches what
// it grants and nothing else, even through a compromised gateway:
//
//   - frames (UDP 6091 and 6092) only from the addresses of gateways, each with the VNI that the
//     node has for it. Kernel Geneve checks that itself; kernel VXLAN compares only the VNI, so that
//     any host could send frames;
//   - on each link, sources in the CIDRs to which the remote cluster of its gateway is mapped, and
//     the gateway's own internal address;
//   - destinations that are pods of this node, and replies to connections that left the node. They
//     are compared before kube-proxy translates them, so no Service address is accepted;
//   - connections to the node itself, at its internal address, only if the Peering allows them
//     (spec.localNodes).
//
// The connection state is that of the node, which the packets of all gateways have in common.
type Ingress struct {
	Frames []FrameSource  // by address and VNI
	Node   []netip.Addr   // internal addresses of the node, sorted: those under which others may reach it
	Pods   []netip.Prefix // of this node, sorted, without overlaps
	Links  []LinkIngress  // by link
}

// FrameSource is the outer source of a gateway's frames to the node, and their VNI.
type FrameSource struct {
	Underlay netip.Addr
	VNI      uint32
}

func (s FrameSource) String() string { return fmt.Sprintf("%s/%d", s.Underlay, s.VNI) }

// LinkIngress defines which packets the node accepts from one link.
type LinkIngress struct {
	Link    string
	Sources []netip.Prefix // sorted, without overlaps
	Nodes   bool           // the remote cluster may open connections to the node
}

// The reasons for which packets from gateways are refused.
const (
	RefusedFrame       = "unknown_source" // a frame that no gateway sends to this node
	RefusedLink        = "unknown_link"   // a packet from a link of no gateway
	RefusedSource      = "spoofed_source" // not an address of the remote cluster
	RefusedDestination = "destination_not_granted"
	RefusedNode        = "node_not_granted" // a connection to the node itself
)

func (d Desired) ingress() Ingress {
	in := Ingress{Node: slices.Clone(d.Addresses), Pods: widest(d.LocalPods)}
	slices.SortFunc(in.Node, netip.Addr.Compare)
	routed := map[netip.Prefix]bool{}
	for _, r := range d.Routes {
		routed[r.Prefix] = true
	}
	for _, g := range d.Gateways {
		l := LinkIngress{Link: g.Link(), Nodes: g.LocalNodes}
		for _, a := range g.Addresses {
			l.Sources = append(l.Sources, host(a))
		}
		for _, p := range g.Remote {
			if routed[p] { // otherwise the node has another route to these addresses, which are other hosts
				l.Sources = append(l.Sources, p)
			}
		}
		l.Sources = widest(l.Sources)
		in.Links = append(in.Links, l)
		in.Frames = append(in.Frames, FrameSource{g.Underlay, g.VNI})
	}
	slices.SortFunc(in.Links, func(a, b LinkIngress) int { return cmp.Compare(a.Link, b.Link) })
	slices.SortFunc(in.Frames, func(a, b FrameSource) int { return cmp.Or(a.Underlay.Compare(b.Underlay), cmp.Compare(a.VNI, b.VNI)) })
	return in
}
