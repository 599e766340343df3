//go:build lab || nightly

package forwarding

import (
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

func TestPingCrosses(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		lab.Ping(t, w.From, w.Seen, 10)
		lab.Ping(t, w.From, w.Seen, 3, "-s", "0")
		lab.Ping(t, w.From, w.Seen, 3, "-s", "1300")
	})
}

func TestFragmentedPingCrosses(t *testing.T) {
	t.Parallel()
	top := lab.Build(t, lab.Options{})
	lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
		if w.Src.Is6() { // only the sender fragments IPv6: it must learn the path MTU first
			lab.WaitForPing(t, w.From, w.Seen, "-s", "8000")
		}
		lab.Ping(t, w.From, w.Seen, 5, "-s", "8000")
	})
}

func TestPodWithTheGatewaysOwnAddressIsReachable(t *testing.T) {
	t.Parallel()
	// The gateway of A is a pod with the underlay address 10.0.1.2. B uses the same pod
	// CIDR, so one of its pods may have the same address.
	top := lab.Build(t, lab.Options{Configure: func(s *lab.Site, c *lab.GatewayConfig) {
		if s.Name == "b" {
			c.Nodes[0].Prefixes = append(c.Nodes[0].Prefixes, netip.MustParsePrefix("10.0.1.2/32"))
		}
	}})
	top.B.AddPodAddress(t, top.A.GW4)
	lab.Ping(t, top.A.Pod, top.A.Sees(top.A.GW4), 5)
}

func TestIPv6UnderlayCarriesBothFamilies(t *testing.T) {
	t.Parallel()
	for name, sameMachine := range map[string]bool{"same machine": true, "another machine": false} {
		t.Run(name, func(t *testing.T) {
			top := lab.Build(t, lab.Options{Underlay6: true, SameMachine: sameMachine})
			exchangeBothDirections(t, top)
		})
	}
}

func TestGeneveAndVXLANClustersConnect(t *testing.T) {
	t.Parallel()
	if lab.NewNamespace(t, "scratch", nil).Encapsulation() != "geneve" {
		t.Skip("mixed encapsulation left out: this kernel has no Geneve; run: test/guest/run-lab")
	}
	top := lab.Build(t, lab.Options{Encapsulation: [2]string{"geneve", "vxlan"}})
	exchangeBothDirections(t, top)
}
