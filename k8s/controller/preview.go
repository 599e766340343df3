package controller

import (
	"errors"
	"net/netip"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

// View is where one range of a remote cluster is seen, or would be.
type View struct {
	CIDR   v1alpha1.CIDR `json:"cidr"`
	SeenAs v1alpha1.CIDR `json:"seenAs,omitempty"` // left out: nowhere
	Reason string        `json:"reason"`           // a phrase for people
}

// Preview is where the controller would show ranges, beside all that is claimed, if the
// remote cluster of a Peering of that name had them. The Peering need not exist; of one
// that does, what it holds counts as its own. The error says why nothing can be shown at
// all. It is pure.
func Preview(of *v1alpha1.ClusterNetwork, apiServers []netip.Addr, held []v1alpha1.AddressClaim, peering string, prefixes v1alpha1.RemotePrefixes) ([]View, error) {
	used, err := rangesOf(of, apiServers)
	if err != nil {
		return nil, err
	}
	n := newNetwork(of.Spec, used)
	if n.problem != "" {
		return nil, errors.New(n.problem)
	}
	specs := make([]claims.Spec, len(held))
	for i := range held {
		specs[i] = held[i].Spec
	}
	v, err := newViews(n, specs)
	if err != nil {
		return nil, err
	}
	var all []View
	for _, one := range v.of(peering, prefixes) {
		all = append(all, View{CIDR: one.cidr, SeenAs: one.claim.Prefix, Reason: one.reason})
	}
	return all, nil
}

// rangesOf are what the cluster itself uses, as its status says.
func rangesOf(of *v1alpha1.ClusterNetwork, apiServers []netip.Addr) (r ranges, err error) {
	r.clusterID = of.Status.ClusterID
	for _, list := range []struct {
		texts []v1alpha1.CIDR
		into  *[]netip.Prefix
	}{{of.Status.PodCIDRs, &r.pods}, {of.Status.ServiceCIDRs, &r.services}, {of.Status.NodeCIDRs, &r.nodes}} {
		if *list.into, err = parsePrefixes(list.texts); err != nil {
			return r, err
		}
	}
	for _, a := range apiServers {
		r.apiServers = append(r.apiServers, single(a.Unmap()))
	}
	return r, nil
}
