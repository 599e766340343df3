package peering

import (
	"net/netip"
	"slices"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// LocalPrefixes returns the CIDRs of the local pods that the remote cluster may reach,
// without overlaps. A nil network adds none.
func LocalPrefixes(p *v1alpha1.Peering, network *v1alpha1.ClusterNetwork) (once []v1alpha1.CIDR) {
	all := p.Spec.LocalPrefixes
	if p.Spec.LocalPods && network != nil {
		all = slices.Concat(all, network.Status.PodCIDRs)
	}
	for _, one := range all {
		wider := func(other v1alpha1.CIDR) bool { return other != one && contains(other, one) }
		if !slices.Contains(once, one) && !slices.ContainsFunc(all, wider) {
			once = append(once, one)
		}
	}
	return once
}

// contains reports whether a contains all addresses of b. An invalid or non-canonical
// prefix contains nothing and is contained in nothing.
func contains(a, b v1alpha1.CIDR) bool {
	outer, err := netip.ParsePrefix(string(a))
	inner, err2 := netip.ParsePrefix(string(b))
	return err == nil && err2 == nil && outer == outer.Masked() && inner == inner.Masked() &&
		outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// Announce returns this cluster's announcement to the remote cluster. It includes the
// gateways that have a key.
func Announce(p *v1alpha1.Peering, network *v1alpha1.ClusterNetwork) v1alpha1.Announcement {
	a := v1alpha1.Announcement{Prefixes: LocalPrefixes(p, network)}
	if network != nil {
		a.ClusterID, a.ExternalPrefixes = network.Status.ClusterID, network.Spec.ExternalCIDRs
	}
	a.Offload = announcedOffload(p, a.ExternalPrefixes)
	length := 0 // of endpoints
	for _, g := range p.Status.Gateways {
		if g.PublicKey == "" {
			continue
		}
		keys := []v1alpha1.PublicKey{g.PublicKey}
		if g.NextPublicKey != "" {
			keys = []v1alpha1.PublicKey{g.NextPublicKey, g.PublicKey}
		}
		own := v1alpha1.AnnouncedGateway{Name: g.Name, PublicKeys: keys}
		for _, e := range g.Endpoints[:min(len(g.Endpoints), maxEndpoints)] {
			if length += len(e); length > maxAllEndpoints/config.MaxReplicas*(len(a.Gateways)+1) {
				length -= len(e)
				break // each gateway has its share
			}
			own.Endpoints = append(own.Endpoints, e)
		}
		a.Gateways = append(a.Gateways, own)
	}
	return a
}

// announcedOffload returns what is announced about the agents of this cluster, nil if it has
// none. A lender outside of the external prefixes cannot be reached, and is left out: the remote
// cluster would reject the whole announcement.
func announcedOffload(p *v1alpha1.Peering, external []v1alpha1.CIDR) *v1alpha1.AnnouncedOffload {
	var o v1alpha1.AnnouncedOffload
	if lend := p.Spec.Lend; lend != nil && lend.Lender != nil {
		address, err := netip.ParseAddr(string(lend.Lender.Address))
		for _, text := range external {
			if cidr, err2 := netip.ParsePrefix(string(text)); err == nil && err2 == nil && cidr.Contains(address) {
				o.Lender = lend.Lender
			}
		}
	}
	if p.Spec.Borrow != nil {
		o.Borrower = p.Spec.Borrow.Fingerprint
	}
	if o == (v1alpha1.AnnouncedOffload{}) {
		return nil
	}
	return &o
}
