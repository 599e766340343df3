package translate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

func (t *translation) local() config.Local {
	l := config.Local{
		Prefixes:         t.prefixes(t.peering(), "spec.localPrefixes", peering.LocalPrefixes(t.Peering, t.Network)),
		ExternalPrefixes: t.prefixes(network, "spec.externalCIDRs", t.Network.Spec.ExternalCIDRs),
	}
	slices.SortFunc(l.Prefixes, comparePrefixes)
	slices.SortFunc(l.ExternalPrefixes, comparePrefixes)
	return l
}

// remote returns the CIDRs that the remote cluster sends from: those that it announced or
// that are in the spec, if they are mapped in the status.
func (t *translation) remote() (all []config.RemotePrefix) {
	own := t.localRanges()
	for _, list := range []struct {
		field   string
		wanted  v1alpha1.RemotePrefixes
		inForce []v1alpha1.SeenPrefix
	}{
		{"status.prefixes", t.remoteState.Prefixes, t.Peering.Status.Prefixes},
		{"status.externalPrefixes", t.remoteState.ExternalPrefixes, t.Peering.Status.ExternalPrefixes},
	} {
		wanted := make(map[v1alpha1.CIDR]bool, len(list.wanted))
		for _, p := range list.wanted {
			wanted[p.CIDR] = true
		}
		for _, p := range list.inForce {
			if !wanted[p.CIDR] {
				continue // withdrawn: remove it now, before the controller updates the status
			}
			cidr, ok := t.prefix(t.peering(), list.field, p.CIDR)
			seenAs, ok2 := t.prefix(t.peering(), list.field, p.SeenAs)
			if !ok || !ok2 {
				continue
			}
			if other, name, overlap := own.overlapping(seenAs); overlap {
				t.problem(t.peering(), list.field, fmt.Sprintf("%s cannot be mapped to %s: it overlaps %s of %s", cidr, seenAs, other, name),
					"set its seenAs in the spec to a CIDR that is free in this cluster")
				continue
			}
			all = append(all, config.RemotePrefix{CIDR: cidr, SeenAs: seenAs})
		}
	}
	slices.SortFunc(all, func(a, b config.RemotePrefix) int {
		return cmp.Or(comparePrefixes(a.CIDR, b.CIDR), comparePrefixes(a.SeenAs, b.SeenAs))
	})
	return all
}

// localRanges returns all CIDRs in use in this cluster, into which no remote CIDR may be
// mapped.
func (t *translation) localRanges() *ranges {
	own, spec, status := new(ranges), &t.Network.Spec, &t.Network.Status
	for _, list := range []struct {
		object, field string
		prefixes      []v1alpha1.CIDR
	}{
		{network, "status.podCIDRs", status.PodCIDRs},
		{network, "status.serviceCIDRs", status.ServiceCIDRs},
		{network, "status.nodeCIDRs", status.NodeCIDRs},
		{network, "spec.internalCIDRs", spec.InternalCIDRs},
		{network, "spec.externalCIDRs", spec.ExternalCIDRs},
		{network, "spec.reservedCIDRs", spec.ReservedCIDRs},
		{t.peering(), "spec.localPrefixes", t.Peering.Spec.LocalPrefixes},
	} {
		own.add(list.field+" of "+list.object, t.prefixes(list.object, list.field, list.prefixes)...)
	}
	own.addHosts("the gateway itself", t.config.Overlay.Addresses...)
	own.addHosts("the gateway itself", t.config.Overlay.ExternalAddresses...)
	return own
}

func comparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

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
