//go:build lab || nightly

package hostile

import (
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/test/lab"
)

// An empty list grants nothing: for every list, every packet, and both sides.
func TestT15_HostileTrafficMeetsEmptyGrants(t *testing.T) {
	t.Parallel()
	for _, grant := range []struct {
		title, reason string
		empty         func(c *lab.GatewayConfig)
	}{
		{"Nothing granted to the other cluster", "source_not_granted", func(c *lab.GatewayConfig) {
			c.LocalPrefixes, c.LocalExternalCIDRs, c.ExternalAddresses = nil, nil, nil
			for i := range c.Nodes {
				c.Nodes[i].ExternalAddresses = nil
			}
		}},
		{"No range of the other cluster", "destination_not_granted", func(c *lab.GatewayConfig) { c.Remote = nil }},
		{"No node", "unknown_source", func(c *lab.GatewayConfig) { c.Nodes = nil }},
	} {
		t.Run(grant.title, func(t *testing.T) {
			h := buildHostile(t, hostileSetup{title: grant.title, configure: func(s *lab.Site, c *lab.GatewayConfig) {
				if s.Name == "a" {
					grant.empty(c)
				}
			}})
			t.Cleanup(func() { h.report(t) })
			h.startPeer(t)
			attacks := slices.Concat([]attack{h.honest("a/egress/" + grant.reason)}, h.forgedFrames(), h.spoofedSources(), h.outsideTheGrant(), h.junk())
			for i := range attacks {
				attacks[i].passes = ""
				if i > 0 {
					attacks[i].counted, attacks[i].complete = nil, false // other checks apply first
				}
			}
			h.all(t, attacks)
			h.rows = []row{together("T15", "all attacks of T1, T2, T3 and T11, and valid packets", h.rows)}
		})
	}
}

// honest returns packets that would pass if they were granted: from a pod of A to a pod of
// B, and from one of B to one of A.
func (h *hostile) honest(counted string) attack {
	a := h.top.A
	return attack{
		threat: "T15", name: "valid packets in both directions", rate: 2000, counted: []string{counted},
		floods: func(t *testing.T, n uint8) []shots {
			v6 := lab.UDPTo(netip.AddrPortFrom(a.Pod6, 9), netip.AddrPortFrom(lab.Addr("fd00:71:0:2::9"), 9), marked(n, 64))
			return []shots{
				{h.asNode(t, a.Encapsulation), each(lab.FrameOf(a.Encapsulation, lab.VNI, lab.UDPTo(
					netip.AddrPortFrom(a.Pod4, 9), netip.MustParseAddrPort("10.71.2.9:9"), marked(n, 64))))},
				{h.asNode(t, a.Encapsulation), each(lab.FrameOf(a.Encapsulation, lab.VNI, v6))},
				{h.attackers.peer.send, each(h.fromPeer(marked(n, 64)))},
				{h.attackers.peer.send, each(lab.UDPTo(netip.AddrPortFrom(peerPod6, 9), netip.AddrPortFrom(a.Pod6, 9), marked(n, 64)))},
			}
		},
	}
}
