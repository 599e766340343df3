package operator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/nat"
)

// SeenHere returns the address in a cluster of a remote address of a Peering: the inverse
// of Resolve. Its Address is the one to use in the cluster c.
func SeenHere(ctx context.Context, c Cluster, name string, remote netip.Addr) (*Resolved, error) {
	n, err := c.Network(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.Peerings(ctx)
	if err != nil {
		return nil, err
	}
	p := named(all, name)
	if p == nil {
		return nil, fmt.Errorf("%s: %w", c.Name, noPeering(name, all))
	}
	here, err := seenHere(p, remote)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	r := &Resolved{Address: here.String(), ClusterID: n.Status.ClusterID}
	r.Meanings = meanings(here, n, []v1alpha1.Peering{*p}, nil, nil)
	return r, nil
}

// seenHere returns the local address that a remote address is mapped to.
func seenHere(p *v1alpha1.Peering, remote netip.Addr) (netip.Addr, error) {
	for _, s := range slices.Concat(p.Status.Prefixes, p.Status.ExternalPrefixes) {
		if here, ok := mapped(remote, s.CIDR, s.SeenAs); ok {
			return here, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s is in no mapped CIDR of cluster %s; strait status %s lists them", remote, remoteOf(p), p.Name)
}

// mapped returns an address in one CIDR as it is mapped to another of the same length.
func mapped(a netip.Addr, from, to v1alpha1.CIDR) (netip.Addr, bool) {
	p, err := netip.ParsePrefix(string(from))
	q, err2 := netip.ParsePrefix(string(to))
	if err != nil || err2 != nil || !p.Contains(a) {
		return netip.Addr{}, false
	}
	m, err := nat.NewMap(p, q)
	if err != nil {
		return netip.Addr{}, false
	}
	return m.Translate(a), true
}
