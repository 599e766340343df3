package translate

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// reserve takes what no pod may have an address from: the pools, the gateway's own
// addresses, and where the remote cluster is seen. So one node with a wrong range
// harms itself alone.
func (t *translation) reserve() {
	spec, gateway := &t.Network.Spec, "gateway "+t.Name
	t.reserved.add("spec.internalCIDRs of "+network, t.prefixes(network, "spec.internalCIDRs", spec.InternalCIDRs)...)
	t.reserved.add("spec.externalCIDRs of "+network, t.config.Local.ExternalPrefixes...)
	t.reserved.addHosts(gateway, t.config.Overlay.Addresses...)
	t.reserved.addHosts(gateway, t.config.Overlay.ExternalAddresses...)
	for _, p := range t.config.Remote.Prefixes {
		t.reserved.add(t.peering()+", where the remote cluster is seen", p.SeenAs)
	}
}

// nodes are the nodes, by name, with their ranges of pods. number is the gateway's.
func (t *translation) nodes(number int32) (all []config.Node) {
	for _, a := range t.Nodes {
		if a.Spec.Index < 1 || a.Spec.Index > 65535 {
			t.problem(attachment(a.Name), "spec.index", fmt.Sprintf("%d is not the index of a node", a.Spec.Index), "delete the object, and Strait's controller creates it anew")
			continue
		}
		underlay, ok := t.underlay(a)
		if !ok {
			continue
		}
		all = append(all, config.Node{
			Name: a.Name, Underlay: underlay, Encapsulation: t.encapsulation(a), VNI: v1alpha1.VNI(a.Spec.Index, number),
			Addresses:         t.addresses(attachment(a.Name), "spec.internalAddresses", a.Spec.InternalAddresses),
			ExternalAddresses: t.addresses(attachment(a.Name), "spec.externalAddresses", a.Spec.ExternalAddresses),
			Prefixes:          t.podCIDRs(a),
		})
	}
	return all
}

// underlay is the address of a node that the gateway talks to: where the node says that
// its frames come from, or else the first of the first family that both have.
func (t *translation) underlay(a *v1alpha1.NodeAttachment) (netip.Addr, bool) {
	for _, g := range a.Status.Gateways {
		if g.Name == t.Name && g.Source != "" {
			if from := t.addresses(attachment(a.Name), "status.gateways", []v1alpha1.IP{g.Source}); len(from) == 1 && t.hasFamily(from[0]) {
				return from[0], true
			}
		}
	}
	theirs := t.addresses(attachment(a.Name), "spec.underlayAddresses", a.Spec.UnderlayAddresses)
	for _, ours := range t.PodAddresses {
		for _, u := range theirs {
			if u.Is4() == ours.Is4() {
				return u, true
			}
		}
	}
	t.problem(attachment(a.Name), "spec.underlayAddresses", fmt.Sprintf("%v: none is of a family that gateway %s has, with %v", theirs, t.Name, t.PodAddresses),
		"give the node an address of that family, or run pods with both families")
	return netip.Addr{}, false
}

// hasFamily reports whether the gateway has an address of that family.
func (t *translation) hasFamily(a netip.Addr) bool {
	return slices.ContainsFunc(t.PodAddresses, func(ours netip.Addr) bool { return ours.Is4() == a.Is4() })
}

// encapsulation is how the node wraps its frames for this gateway. Until it has said
// so, Geneve: a node that falls back to VXLAN tells before it sends.
func (t *translation) encapsulation(a *v1alpha1.NodeAttachment) config.Encapsulation {
	for _, g := range a.Status.Gateways {
		if g.Name == t.Name && g.Encapsulation == v1alpha1.VXLAN {
			return config.VXLAN
		}
	}
	return config.Geneve
}

// podCIDRs are the ranges of a node's pods that mean nothing else.
func (t *translation) podCIDRs(a *v1alpha1.NodeAttachment) (all []netip.Prefix) {
	const field = "spec.podCIDRs"
	for _, p := range t.prefixes(attachment(a.Name), field, a.Spec.PodCIDRs) {
		if other, name, overlap := t.reserved.overlapping(p); overlap {
			t.problem(attachment(a.Name), field, fmt.Sprintf("%s overlaps %s of %s", p, other, name), "give the pods a range of their own")
			continue
		}
		all = append(all, p)
	}
	slices.SortFunc(all, comparePrefixes)
	return all
}
