package tun

import (
	"net/netip"
	"sync"
	"testing"

	"strait.dev/strait/test/wait"
)

// A load balancer sends what continues a flow to a gateway that is gone, for as long as packets
// arrive. A link whose peer does not answer becomes another flow.
func TestALinkLeavesAFlowThatLeadsNowhere(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	var mu sync.Mutex
	flows, nowhere := map[netip.AddrPort]bool{}, map[netip.AddrPort]bool{}
	path := newNarrowPath(t, b.port, 1<<16)
	lost := func(caller netip.AddrPort) bool {
		mu.Lock()
		defer mu.Unlock()
		flows[caller] = true
		return nowhere[caller]
	}
	path.lost.Store(&lost)
	there, back := a.link("b-0", b), b.link("a-0", a)
	there.Endpoints, back.Endpoints = []string{path.near.LocalAddr().String()}, nil
	setLinks(t, a, there)
	setLinks(t, b, back)
	up := func() bool { return a.fabric.Status()[0].Up && b.fabric.Status()[0].Up }
	wait.Until(t, "both ends are up", up)
	for range 2 {
		mu.Lock()
		for from := range flows {
			nowhere[from] = true
		}
		mu.Unlock()
		wait.Until(t, "the link is down", func() bool { return !up() })
		wait.Until(t, "the link is up again", up)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(flows) < 3 {
		t.Errorf("the flows were %v", flows)
	}
}
