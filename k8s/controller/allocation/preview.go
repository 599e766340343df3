package allocation

import (
	"errors"
	"net/netip"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/network"
)

// View is the mapping of one remote CIDR, or the proposed one.
type View struct {
	CIDR   v1alpha1.CIDR `json:"cidr"`
	SeenAs v1alpha1.CIDR `json:"seenAs,omitempty"` // empty: not mapped
	Reason string        `json:"reason"`           // a phrase for messages

	// Refused are nodes that refuse to route SeenAs, each with the destination that it
	// routes itself, as far as nodes reported it.
	Refused []string `json:"refused,omitempty"`
}

// Preview returns the CIDRs that the controller would map remote CIDRs to, given all
// claims, for a Peering of that name. The Peering need not exist; claims that it holds
// count as its own. listed reports which CIDRs it lists; others are those that the remote
// cluster announces. The error explains why no mapping can be computed. Preview has no side
// effects.
func Preview(of *v1alpha1.ClusterNetwork, apiServers []netip.Addr, held []v1alpha1.AddressClaim, peering string, prefixes v1alpha1.RemotePrefixes, listed func(v1alpha1.CIDR) bool) ([]View, error) {
	used, err := rangesOf(of, apiServers)
	if err != nil {
		return nil, err
	}
	n := network.New(of.Spec, used)
	if n.Problem != "" {
		return nil, errors.New(n.Problem)
	}
	specs := make([]claims.Spec, len(held))
	for i := range held {
		specs[i] = held[i].Spec
	}
	v, err := NewViews(n, specs)
	if err != nil {
		return nil, err
	}
	var all []View
	for _, one := range v.Of(peering, prefixes, listed) {
		all = append(all, View{CIDR: one.CIDR, SeenAs: one.Claim.Prefix, Reason: one.Reason})
	}
	return all, nil
}

func rangesOf(of *v1alpha1.ClusterNetwork, apiServers []netip.Addr) (r network.Ranges, err error) {
	r.ClusterID = of.Status.ClusterID
	for _, list := range []struct {
		texts []v1alpha1.CIDR
		into  *[]netip.Prefix
	}{{of.Status.PodCIDRs, &r.Pods}, {of.Status.ServiceCIDRs, &r.Services}, {of.Status.NodeCIDRs, &r.Nodes}} {
		if *list.into, err = cidrs.Parse(list.texts); err != nil {
			return r, err
		}
	}
	for _, a := range apiServers {
		r.APIServers = append(r.APIServers, cidrs.Single(a.Unmap()))
	}
	return r, nil
}
