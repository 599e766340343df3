package config

import "testing"

func TestProblemsOfMasqueradeAreNamed(t *testing.T) {
	t.Parallel()
	const sources = "sources: [198.51.100.0/24, 203.0.113.9]"
	testMalformed(t, []malformed{
		{
			"host bits", sources, "sources: [198.51.100.9/24]",
			"line 51: masquerade.sources[0]: 198.51.100.9/24 has host bits set; write 198.51.100.0/24",
		},
		{
			"a family without an external address", sources, `sources: ["2001:db8::/32"]`,
			"line 51: masquerade.sources[0]: 2001:db8::/32 has no external address to leave under; give the gateway an address of that family in overlay.externalAddresses",
		},
		{
			"IPv4 in IPv6 form", sources, `sources: ["::ffff:198.51.100.0/120"]`,
			"line 51: masquerade.sources[0]: ::ffff:198.51.100.0/120 is an IPv4 prefix in IPv6 form; write the IPv4 prefix",
		},
		{
			"an empty source", sources, "sources: [~]",
			"line 51: masquerade.sources[0]: missing; write a prefix like 198.51.100.0/24, or 0.0.0.0/0 for all sources",
		},
		{
			"too many flows", "flows: 1000", "flows: 4194305",
			"line 52: masquerade.flows: 4194305 is not a number of flows; use 0 for the default, or a number from 1 to 4194304",
		},
		{
			"fewer than no flows", "flows: 1000", "flows: -1",
			"line 52: masquerade.flows: -1 is not a number of flows; use 0 for the default, or a number from 1 to 4194304",
		},
		{
			"one source with more flows than there are", "flowsPerSource: 100", "flowsPerSource: 1001",
			"line 53: masquerade.flowsPerSource: 1001 of 1000 flows cannot be one source's; use at most as many as flows, or leave it out for a sixteenth of them",
		},
		{
			"two nodes with one VNI", "    underlay: 192.0.2.22\n    encapsulation: vxlan\n    vni: 102", "    underlay: 192.0.2.23\n    encapsulation: vxlan\n    vni: 101",
			"line 21: overlay.nodes[1].vni: 101 is already the VNI of overlay.nodes[0], and flows that are masqueraded know their node by it; give each node a VNI of its own, or remove masquerade.sources",
		},
	})
}

func TestAllSourcesMayBeMasqueraded(t *testing.T) {
	t.Parallel()
	if err := check(replace(t, "sources: [198.51.100.0/24, 203.0.113.9]", "sources: [0.0.0.0/0]")); err != nil {
		t.Error(err)
	}
}

func TestLimitsOfMasqueradeHaveDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		m                Masquerade
		flows, perSource int
	}{
		{Masquerade{}, 65536, 4096},
		{Masquerade{Flows: 160}, 160, 10},
		{Masquerade{Flows: 3}, 3, 1},
		{Masquerade{FlowsPerSource: 7}, 65536, 7},
	} {
		if flows, perSource := c.m.Limits(); flows != c.flows || perSource != c.perSource {
			t.Errorf("%+v: %d and %d, want %d and %d", c.m, flows, perSource, c.flows, c.perSource)
		}
	}
}
