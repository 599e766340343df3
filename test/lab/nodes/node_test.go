//go:build lab || nightly

package nodes

import (
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/internal/netns"
	"strait.dev/strait/test/lab"
)

func TestGatewaysAnswerPing(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	for _, s := range []*lab.Site{top.A, top.B} {
		for f := range lab.GatewayInternal {
			t.Run(s.Name+"/"+lab.GatewayInternal[f].String(), func(t *testing.T) {
				lab.Ping(t, s.Node, lab.GatewayInternal[f], 3)
				lab.Ping(t, s.Node, s.Sees(lab.GatewayExternal[f]), 3)
				lab.Ping(t, s.Pod, s.Sees(lab.GatewayExternal[f]), 3)
			})
		}
	}
}

// Nodes have permanent neighbour entries. Without them they send requests, and the gateway
// answers.
func TestGatewayAnswersARPAndNeighbourSolicitation(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	node := top.A.Node
	for _, gateway := range lab.GatewayInternal {
		t.Run(gateway.String(), func(t *testing.T) {
			node.Run(t, "ip", "neigh", "del", gateway.String(), "dev", "strait0")
			lab.Ping(t, node, gateway, 3)
			neighbour := node.Run(t, "ip", "neigh", "show", gateway.String(), "dev", "strait0")
			if !strings.Contains(neighbour, netns.TunnelMAC(lab.GatewayInternal[0])) || strings.Contains(neighbour, "PERMANENT") {
				t.Errorf("the node learned %q, want a dynamic entry with %s", neighbour, netns.TunnelMAC(lab.GatewayInternal[0]))
			}
		})
	}
}

func TestNodeAndFarPodReachEachOther(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		f := lab.Family(w.Src)
		nodeSeen := w.FarSite.Sees(lab.NodeExternal[f])
		lab.Ping(t, w.Site.Node, w.Seen, 3)
		lab.Ping(t, w.To, nodeSeen, 3)

		l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 80))
		w.Site.Node.Dial(t, "tcp", netip.AddrPortFrom(w.Seen, 80))
		if got := lab.AcceptedFrom(t, l); got != nodeSeen {
			t.Errorf("the node is mapped to, at the pod, %s, want %s", got, nodeSeen)
		}
		l = w.Site.Node.ListenTCP(t, netip.AddrPortFrom(lab.NodeInternal[f], 80))
		w.To.Dial(t, "tcp", netip.AddrPortFrom(nodeSeen, 80))
		if got := lab.AcceptedFrom(t, l); got != w.Seen {
			t.Errorf("the pod is mapped to, at the node, %s, want %s", got, w.Seen)
		}
	})
}

// Both nodes have the same internal and the same external address, and still reach each
// other.
func TestNodesWithEqualAddressesReachEachOther(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	for _, s := range []*lab.Site{top.A, top.B} {
		for f := range lab.NodeExternal {
			far := s.Sees(lab.NodeExternal[f])
			t.Run(s.Name+"/"+far.String(), func(t *testing.T) {
				lab.Ping(t, s.Node, far, 3)
				l := top.Other(s).Node.ListenTCP(t, netip.AddrPortFrom(lab.NodeInternal[f], 5001))
				lab.Transfer(t, s.Node, l, netip.AddrPortFrom(far, 5001), 1<<20, 1)
			})
		}
	}
}
