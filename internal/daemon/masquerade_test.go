package daemon

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"strait.dev/strait/config"
)

func TestMasqueradeFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t)
	if !b.has("strait_masquerade_max_flows 1000")() {
		t.Error("it does not begin with a capacity of 1000 flows")
	}
	b.edit(t, "flows: 1000", "flows: 2000")
	b.reload <- syscall.SIGHUP
	b.waitFor(t, "there is a capacity of 2000 flows", b.has("strait_masquerade_max_flows 2000"))
	b.edit(t, "masquerade: {sources: [198.51.100.0/24], flows: 2000}\n", "")
	b.reload <- syscall.SIGHUP
	b.waitFor(t, "there is no capacity for flows", func() bool {
		page := b.get("/metrics")
		return strings.Contains(page, "strait_nodes 1") && !strings.Contains(page, "strait_masquerade")
	})
}

func TestFlowsAreKeptWhenTheirBoundsAre(t *testing.T) {
	t.Parallel()
	c := &config.Gateway{Masquerade: config.Masquerade{Sources: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}, Flows: 100}}
	first := newFlows(c, nil)
	c.Masquerade.Sources = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	if newFlows(c, first) != first {
		t.Error("other sources ended all flows")
	}
	c.Masquerade.FlowsPerSource = 7
	if newFlows(c, first) == first {
		t.Error("another bound of a source is not in force")
	}
	c.Masquerade.Sources = nil
	if newFlows(c, first) != nil {
		t.Error("flows without sources")
	}
}
