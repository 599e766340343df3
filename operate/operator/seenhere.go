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
	i := slices.IndexFunc(all, func(p v1alpha1.Peering) bool { return p.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%s: Peering %s does not exist; existing Peerings: %s", c.Name, name, peeringNames(all))
	}
	here, err := seenHere(&all[i], remote)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	r := &Resolved{Address: here.String(), ClusterID: n.Status.ClusterID}
	r.Meanings = meanings(here, n, all[i:i+1], nil, nil)
	return r, nil
}

// seenHere returns the local address that a remote address is mapped to.
func seenHere(p *v1alpha1.Peering, remote netip.Addr) (netip.Addr, error) {
	for _, seen := range [][]v1alpha1.SeenPrefix{p.Status.Prefixes, p.Status.ExternalPrefixes} {
		for _, s := range seen {
			cidr, err := netip.ParsePrefix(string(s.CIDR))
			seenAs, err2 := netip.ParsePrefix(string(s.SeenAs))
			if err != nil || err2 != nil || !cidr.Contains(remote) {
				continue
			}
			m, err := nat.NewMap(cidr, seenAs)
			if err != nil {
				continue
			}
			return m.Translate(remote), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s is in no mapped CIDR of cluster %s; strait status %s lists them", remote, remoteOf(p), p.Name)
}
