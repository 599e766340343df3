//go:build lab || nightly

package lab

import (
	"net/netip"
	"strings"
	"testing"
)

func TestGatewaysAnswerPing(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	for _, s := range []*site{top.a, top.b} {
		for f := range gatewayInternal {
			t.Run(s.name+"/"+gatewayInternal[f].String(), func(t *testing.T) {
				ping(t, s.node, gatewayInternal[f], 3)
				ping(t, s.node, s.sees(gatewayExternal[f]), 3)
				ping(t, s.pod, s.sees(gatewayExternal[f]), 3)
			})
		}
	}
}

// Nodes have permanent neighbour entries. Without them they send requests, and the gateway
// answers.
func TestGatewayAnswersARPAndNeighbourSolicitation(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	node := top.a.node
	for _, gateway := range gatewayInternal {
		t.Run(gateway.String(), func(t *testing.T) {
			node.run(t, "ip", "neigh", "del", gateway.String(), "dev", "strait0")
			ping(t, node, gateway, 3)
			neighbour := node.run(t, "ip", "neigh", "show", gateway.String(), "dev", "strait0")
			if !strings.Contains(neighbour, overlayMAC(gatewayInternal[0])) || strings.Contains(neighbour, "PERMANENT") {
				t.Errorf("the node learned %q, want a dynamic entry with %s", neighbour, overlayMAC(gatewayInternal[0]))
			}
		})
	}
}

func TestNodeAndFarPodReachEachOther(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		f := family(w.src)
		nodeSeen := w.farSite.sees(nodeExternal[f])
		ping(t, w.site.node, w.seen, 3)
		ping(t, w.to, nodeSeen, 3)

		l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 80))
		w.site.node.dial(t, "tcp", netip.AddrPortFrom(w.seen, 80))
		if got := acceptedFrom(t, l); got != nodeSeen {
			t.Errorf("the node is mapped to, at the pod, %s, want %s", got, nodeSeen)
		}
		l = w.site.node.listenTCP(t, netip.AddrPortFrom(nodeInternal[f], 80))
		w.to.dial(t, "tcp", netip.AddrPortFrom(nodeSeen, 80))
		if got := acceptedFrom(t, l); got != w.seen {
			t.Errorf("the pod is mapped to, at the node, %s, want %s", got, w.seen)
		}
	})
}

// Both nodes have the same internal and the same external address, and still reach each
// other.
func TestNodesWithEqualAddressesReachEachOther(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	for _, s := range []*site{top.a, top.b} {
		for f := range nodeExternal {
			far := s.sees(nodeExternal[f])
			t.Run(s.name+"/"+far.String(), func(t *testing.T) {
				ping(t, s.node, far, 3)
				l := top.other(s).node.listenTCP(t, netip.AddrPortFrom(nodeInternal[f], 5001))
				transfer(t, s.node, l, netip.AddrPortFrom(far, 5001), 1<<20, 1)
			})
		}
	}
}
