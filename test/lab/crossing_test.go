//go:build lab || nightly

package lab

import (
	"net/netip"
	"testing"
)

func TestPingCrosses(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		ping(t, w.from, w.seen, 10)
		ping(t, w.from, w.seen, 3, "-s", "0")
		ping(t, w.from, w.seen, 3, "-s", "1300")
	})
}

func TestFragmentedPingCrosses(t *testing.T) {
	t.Parallel()
	top := build(t, options{})
	forEachDirection(t, top, func(t *testing.T, w direction) {
		if w.src.Is6() { // only the sender fragments IPv6: it must learn the path MTU first
			waitForPing(t, w.from, w.seen, "-s", "8000")
		}
		ping(t, w.from, w.seen, 5, "-s", "8000")
	})
}

func TestPodWithTheGatewaysOwnAddressIsReachable(t *testing.T) {
	t.Parallel()
	// The gateway of A is a pod with the underlay address 10.0.1.2. B uses the same pod
	// CIDR, so one of its pods may have the same address.
	top := build(t, options{configure: func(s *site, c *gatewayConfig) {
		if s.name == "b" {
			c.Nodes[0].Prefixes = append(c.Nodes[0].Prefixes, netip.MustParsePrefix("10.0.1.2/32"))
		}
	}})
	top.b.addPodAddress(t, top.a.gw4)
	ping(t, top.a.pod, top.a.sees(top.a.gw4), 5)
}

func TestIPv6UnderlayCarriesBothFamilies(t *testing.T) {
	t.Parallel()
	for name, sameMachine := range map[string]bool{"same machine": true, "another machine": false} {
		t.Run(name, func(t *testing.T) {
			top := build(t, options{underlay6: true, sameMachine: sameMachine})
			exchangeBothDirections(t, top)
		})
	}
}

func TestGeneveAndVXLANClustersConnect(t *testing.T) {
	t.Parallel()
	if kernelEncapsulation(newNamespace(t, "scratch", nil)) != "geneve" {
		t.Skip("mixed encapsulation left out: this kernel has no Geneve; run: test/guest/run-lab")
	}
	top := build(t, options{encapsulation: [2]string{"geneve", "vxlan"}})
	exchangeBothDirections(t, top)
}
