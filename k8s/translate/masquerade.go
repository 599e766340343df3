package translate

import (
	"net/netip"
	"slices"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// masquerade returns the masqueraded sources. Sources of an IP family in which the gateway
// has no external address are left out.
func (t *translation) masquerade() (m config.Masquerade) {
	wish := &t.Network.Spec.Masquerade
	for _, text := range wish.Sources {
		p, ok := t.prefix(network, "spec.masquerade.sources", v1alpha1.CIDR(text))
		if !ok {
			continue
		}
		if !slices.ContainsFunc(t.config.Overlay.ExternalAddresses, func(a netip.Addr) bool { return a.Is4() == p.Addr().Is4() }) {
			t.problem(network, "spec.masquerade.sources", p.String()+" cannot be masqueraded: the gateway has no external address of its IP family",
				"add a CIDR of that IP family to spec.externalCIDRs, or remove the source")
			continue
		}
		m.Sources = append(m.Sources, p)
	}
	if len(m.Sources) == 0 {
		return config.Masquerade{}
	}
	slices.SortFunc(m.Sources, comparePrefixes)
	m.Flows, m.FlowsPerSource = int(wish.Flows), int(wish.FlowsPerSource)
	if flows, perSource := m.Limits(); flows < 1 || flows > config.MaxFlows || perSource < 1 || perSource > flows {
		t.problem(network, "spec.masquerade", "flows or flowsPerSource is out of range", "remove both, or set flowsPerSource to at most flows")
		m.Flows, m.FlowsPerSource = 0, 0
	}
	return m
}
