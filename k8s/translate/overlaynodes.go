package translate

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// reserve records the addresses that no pod may have: the pools, the gateway's own
// addresses, and the mapped CIDRs of the remote cluster. So a node with a wrong CIDR
// affects only itself.
func (t *translation) reserve() {
	spec, gateway := &t.Network.Spec, "gateway "+t.Name
	t.reserved.add("spec.internalCIDRs of "+network, t.prefixes(network, "spec.internalCIDRs", spec.InternalCIDRs)...)
	t.reserved.add("spec.externalCIDRs of "+network, t.config.Local.ExternalPrefixes...)
	t.reserved.addHosts(gateway, t.config.Overlay.Addresses...)
	t.reserved.addHosts(gateway, t.config.Overlay.ExternalAddresses...)
	for _, p := range t.config.Remote.Prefixes {
		t.reserved.add(t.peering()+", where the remote cluster is mapped to", p.SeenAs)
	}
}

// nodes returns the nodes, by name, with their pod CIDRs. number is the gateway's number.
func (t *translation) nodes(number int32) (all []config.Node) {
	owners := t.addressOwners()
	for _, a := range t.Nodes {
		if a.Spec.Index < 1 || a.Spec.Index > 65535 {
			t.problem(attachment(a.Name), "spec.index", fmt.Sprintf("%d is not a valid node index", a.Spec.Index), "delete the object, and Strait's controller creates it again")
			continue
		}
		underlay, ok := t.underlay(a, owners)
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

// addressOwners returns the addresses that the controller assigned to nodes or read from
// them, and those of the gateway, with the names of their objects.
func (t *translation) addressOwners() map[netip.Addr]string {
	owners := make(map[netip.Addr]string)
	for _, a := range t.Nodes {
		for _, text := range slices.Concat(a.Spec.UnderlayAddresses, a.Spec.InternalAddresses, a.Spec.ExternalAddresses) {
			if address, err := netip.ParseAddr(string(text)); err == nil { // nodes reports invalid ones
				owners[address] = attachment(a.Name)
			}
		}
	}
	for _, own := range t.PodAddresses {
		owners[own] = "gateway " + t.Name
	}
	return owners
}

// underlay returns the address of a node that the gateway sends to: the source address that
// the node reports, or else the first of the first IP family that both have. A node cannot
// report an address that belongs to another.
func (t *translation) underlay(a *v1alpha1.NodeAttachment, owners map[netip.Addr]string) (netip.Addr, bool) {
	for _, g := range a.Status.Gateways {
		if g.Name != t.Name || g.Source == "" {
			continue
		}
		from := t.addresses(attachment(a.Name), "status.gateways", []v1alpha1.IP{g.Source})
		if len(from) == 0 || !t.hasFamily(from[0]) {
			continue
		}
		owner, taken := owners[from[0]]
		if _, name, reserved := t.reserved.overlapping(host(from[0])); reserved && !taken {
			owner, taken = name, true
		}
		if !taken || owner == attachment(a.Name) {
			return from[0], true
		}
		t.problem(attachment(a.Name), "status.gateways", fmt.Sprintf("the source %s belongs to %s", from[0], owner),
			"check the node helper of this node: it reports an address that the node does not have")
	}
	theirs := t.addresses(attachment(a.Name), "spec.underlayAddresses", a.Spec.UnderlayAddresses)
	for _, ours := range t.PodAddresses {
		for _, u := range theirs {
			if u.Is4() == ours.Is4() {
				return u, true
			}
		}
	}
	t.problem(attachment(a.Name), "spec.underlayAddresses", fmt.Sprintf("%v: no IP family in common with gateway %s, which has %v", theirs, t.Name, t.PodAddresses),
		"give the node an address of that IP family, or run dual-stack pods")
	return netip.Addr{}, false
}

func (t *translation) hasFamily(a netip.Addr) bool {
	return slices.ContainsFunc(t.PodAddresses, func(ours netip.Addr) bool { return ours.Is4() == a.Is4() })
}

// encapsulation returns the node's encapsulation for this gateway. The default is Geneve: a
// node that falls back to VXLAN reports it before it sends.
func (t *translation) encapsulation(a *v1alpha1.NodeAttachment) config.Encapsulation {
	for _, g := range a.Status.Gateways {
		if g.Name == t.Name && g.Encapsulation == v1alpha1.VXLAN {
			return config.VXLAN
		}
	}
	return config.Geneve
}

func (t *translation) podCIDRs(a *v1alpha1.NodeAttachment) (all []netip.Prefix) {
	const field = "spec.podCIDRs"
	for _, p := range t.prefixes(attachment(a.Name), field, a.Spec.PodCIDRs) {
		if other, name, overlap := t.reserved.overlapping(p); overlap {
			t.problem(attachment(a.Name), field, fmt.Sprintf("%s overlaps %s of %s", p, other, name), "use a CIDR for the pods that is not in use")
			continue
		}
		all = append(all, p)
	}
	slices.SortFunc(all, comparePrefixes)
	return all
}
