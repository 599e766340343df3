package controller

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// network is this cluster's configuration for allocation.
type network struct {
	ranges
	internal, external, remap []netip.Prefix    // the pools
	reserved                  []netip.Prefix    // of the spec
	withoutNodes              bool              // there are no node helpers
	gatewayPods               []netip.Addr      // addresses of all gateways; used withoutNodes
	attached                  *metav1.Condition // NodesAttached; nil: not known
	problem                   string            // why nothing may be allocated, with the remedy; empty if allocation is possible
}

// newNetwork parses the spec of a ClusterNetwork and checks it against the CIDRs that the
// cluster uses.
func newNetwork(spec v1alpha1.ClusterNetworkSpec, r ranges) *network {
	n := &network{ranges: r, problem: strings.Join(r.undetected, "; ")}
	for _, list := range []struct {
		field string
		texts []v1alpha1.CIDR
		into  *[]netip.Prefix
	}{
		{"internalCIDRs", spec.InternalCIDRs, &n.internal},
		{"externalCIDRs", spec.ExternalCIDRs, &n.external},
		{"remapPools", spec.RemapPools, &n.remap},
		{"reservedCIDRs", spec.ReservedCIDRs, &n.reserved},
	} {
		prefixes, err := parsePrefixes(list.texts)
		if err != nil {
			n.problem = fmt.Sprintf("in spec.%s, %v; correct it", list.field, err)
		}
		*list.into = prefixes
		if _, err := ipam.NewSpace(prefixes, nil, nil); err != nil && list.field != "reservedCIDRs" {
			n.problem = fmt.Sprintf("spec.%s: %v", list.field, err)
		}
	}
	if n.problem == "" {
		n.problem = n.overlap()
	}
	return n
}

// overlap returns a problem if an address pool overlaps CIDRs of the cluster. Remap pools
// may overlap them: what is in use is not allocated from them.
func (n *network) overlap() string {
	uses := n.uses()
	for _, pool := range n.addressPools() {
		for _, used := range uses {
			if pool.Prefix.Overlaps(used.Prefix) {
				return fmt.Sprintf("%s %v overlaps %s %v; choose another CIDR in spec.internalCIDRs or spec.externalCIDRs",
					pool.Use, pool.Prefix, used.Use, used.Prefix)
			}
		}
	}
	return ""
}

// uses returns the CIDRs that this cluster uses independently of Strait.
func (n *network) uses() []ipam.Reserved {
	return slices.Concat(
		reserve("this cluster's pod CIDR", n.pods),
		reserve("this cluster's service CIDR", n.services),
		reserve("this cluster's node CIDR", n.nodes),
		reserve("this cluster's API server", n.apiServers),
		reserve("the reserved CIDR", n.reserved))
}

// reservations returns all CIDRs into which no remote CIDR may be mapped.
func (n *network) reservations() []ipam.Reserved { return slices.Concat(n.uses(), n.addressPools()) }

func (n *network) addressPools() []ipam.Reserved {
	return slices.Concat(
		reserve("this cluster's internal CIDR", n.internal),
		reserve("this cluster's external CIDR", n.external))
}

// internalOf returns the internal CIDRs that addresses of an IP family are allocated from.
// Without pods that have IPv6, nodes may not support it: then there are none of IPv6, unless
// there are no others.
func (n *network) internalOf(is4 bool) []netip.Prefix {
	pods6 := slices.ContainsFunc(n.pods, func(p netip.Prefix) bool { return p.Addr().Is6() })
	if !is4 && !pods6 && len(ofFamily(n.internal, true)) > 0 {
		return nil
	}
	return ofFamily(n.internal, is4)
}

func reserve(use string, prefixes []netip.Prefix) (all []ipam.Reserved) {
	for _, p := range prefixes {
		all = append(all, ipam.Reserved{Prefix: p, Use: use})
	}
	return all
}

// status returns the desired status of a ClusterNetwork.
func (n *network) status(of *v1alpha1.ClusterNetwork) v1alpha1.ClusterNetworkStatus {
	s := v1alpha1.ClusterNetworkStatus{
		ObservedGeneration: of.Generation,
		ClusterID:          n.clusterID,
		PodCIDRs:           cidrs(n.pods),
		ServiceCIDRs:       cidrs(n.services),
		NodeCIDRs:          cidrs(n.nodes),
		WithoutNodes:       n.withoutNodes,
		Sources:            n.sources,
		Conditions:         ownConditions(of.Status.Conditions, v1alpha1.ConditionDetected, v1alpha1.ConditionReady, v1alpha1.ConditionNodesAttached),
	}
	for _, p := range n.apiServers {
		s.APIServers = append(s.APIServers, v1alpha1.IP(p.Addr().String()))
	}
	s.APIServers = limited(s.APIServers, maxAPIServers)
	if n.withoutNodes {
		for _, a := range n.gatewayPods {
			s.Gateways = append(s.Gateways, v1alpha1.IP(a.String()))
		}
		s.Gateways = limited(s.Gateways, maxGatewayAddresses)
	}
	detected := metav1.Condition{Type: v1alpha1.ConditionDetected, Status: metav1.ConditionTrue, Reason: "Known",
		Message: "the CIDRs of pods, Services and nodes are known", ObservedGeneration: of.Generation}
	if len(n.undetected) > 0 {
		detected.Status, detected.Reason, detected.Message = metav1.ConditionFalse, "NotFound", strings.Join(n.undetected, "; ")
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AsWished",
		Message: "CIDRs and addresses can be allocated", ObservedGeneration: of.Generation}
	if n.problem != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "CannotAllocate", n.problem
	}
	meta.SetStatusCondition(&s.Conditions, detected)
	meta.SetStatusCondition(&s.Conditions, ready)
	switch {
	case n.withoutNodes:
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionNodesAttached)
	case n.attached != nil:
		attached := *n.attached
		attached.ObservedGeneration = of.Generation
		meta.SetStatusCondition(&s.Conditions, attached)
	}
	return s
}

// limited returns the first elements of a list in its order, each once.
func limited(all []v1alpha1.IP, most int) []v1alpha1.IP {
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), most)]
}

// Limits of lists in the API.
const (
	maxAPIServers       = 64
	maxGatewayAddresses = 1024
)
