//go:build nightly

package hostile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/test/lab"
)

// The tests of this file measure a transfer, and must run alone on the machine.

// The transfer continues, no forbidden packet passes, every drop has its reason, and memory
// returns to its previous level.
func TestT1_T2_T3_T8_T9_T11_T12_HostileTrafficDoesNoHarm(t *testing.T) {
	h := buildHostile(t, hostileSetup{title: "While a transfer runs"})
	t.Cleanup(func() { h.report(t) })
	h.awaitTraffic(t)
	h.expectWatchersSee(t)
	h.begin(t)
	h.all(t, slices.Concat(h.forgedFrames(), h.spoofedSources(), h.outsideTheGrant(), h.atWireGuard(), h.junk(),
		[]attack{h.errorsAboutTheTransfer(), h.echoFlood()}, h.churn()))
	h.expectMemoryBack(t)
	for _, ld := range h.loads {
		ld.finish(t)
	}
}

// One source that opens flows without end exhausts its own share; all sources together
// exhaust the limit. An established flow survives both.
func TestT10_HostileSourcesLeaveOthersTheirFlows(t *testing.T) {
	h := buildHostile(t, hostileSetup{title: "While others need the masquerade", more: natConfig})
	t.Cleanup(func() { h.report(t) })
	h.awaitTraffic(t)
	h.expectWatchersSee(t)
	h.top.A.AddPodAddress(t, natClient)
	clients := h.openFlows(t, natClient, 20)
	h.begin(t)

	expectAlive := func(t *testing.T) string {
		for i, c := range clients {
			if err := echoWithin(c, fmt.Appendf(nil, "flow %d is alive", i), 10); err != nil {
				t.Errorf("flow %d, opened before the attack: %v", i, err)
			}
		}
		flows := h.top.A.Gateway.Metric(t, "strait_masquerade_flows")
		if flows > natFlows {
			t.Errorf("%v flows, %d may be", flows, natFlows)
		}
		return fmt.Sprintf("%.0f flows at its end, and %d others alive", flows, len(clients))
	}
	opens := func(source func(random *rand.Rand) netip.Addr) func(*testing.T, uint8) []shots {
		return func(t *testing.T, n uint8) []shots {
			random := rand.New(rand.NewPCG(10, uint64(n)))
			return []shots{{h.asNode(t, h.top.A.Encapsulation), pool(1<<14, func(int) []byte {
				from := netip.AddrPortFrom(source(random), uint16(1+random.IntN(65535)))
				to := netip.AddrPortFrom(lab.Addr("10.71.2.9"), uint16(10000+random.IntN(50000)))
				return lab.FrameOf(h.top.A.Encapsulation, lab.VNI, lab.UDPTo(from, to, marked(n, 32)))
			})}}
		}
	}
	h.all(t, []attack{{
		threat: "T10", name: "one source that keeps opening flows", rate: 10000, passes: "packets of the flows within the limit of one source",
		counted: []string{"a/egress/nat_quota"},
		floods:  opens(func(*rand.Rand) netip.Addr { return lab.Addr("198.18.0.66") }),
		meanwhile: func(t *testing.T) string {
			h.openFlows(t, lab.Addr("198.18.0.10"), 5) // there is capacity for others
			return expectAlive(t)
		},
	}, {
		threat: "T10", name: "very many sources, each with its flows", rate: 10000, passes: "packets of the flows within the limit of all sources",
		counted: []string{"a/egress/nat_exhausted"},
		floods: opens(func(random *rand.Rand) netip.Addr {
			return netip.AddrFrom4([4]byte{198, 19, byte(random.Uint32()), byte(random.Uint32())})
		}),
		meanwhile: expectAlive,
	}})
	expectAlive(t)
	for _, ld := range h.loads {
		ld.finish(t)
	}
}
