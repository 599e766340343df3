// Package network finds the CIDRs that a cluster uses, and checks the pools of its ClusterNetwork
// against them.
//
// Gather reads what the API server knows; Detect and New decide without I/O; Detected does all
// of it for a command.
package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/condition"
)

// Network is this cluster's configuration for allocation.
type Network struct {
	Ranges
	Internal, External, Remap []netip.Prefix    // the pools
	Reserved                  []netip.Prefix    // of the spec
	WithoutNodes              bool              // there are no node helpers
	GatewayPods               []netip.Addr      // addresses of all gateways; used withoutNodes
	Attached                  *metav1.Condition // NodesAttached; nil: not known
	Problem                   string            // why nothing may be allocated, with the remedy; empty if allocation is possible
}

// New parses the spec of a ClusterNetwork and checks it against the CIDRs that the
// cluster uses.
func New(spec v1alpha1.ClusterNetworkSpec, r Ranges) *Network {
	n := &Network{Ranges: r, Problem: strings.Join(r.undetected, "; ")}
	for _, list := range []struct {
		field string
		texts []v1alpha1.CIDR
		into  *[]netip.Prefix
	}{
		{"internalCIDRs", spec.InternalCIDRs, &n.Internal},
		{"externalCIDRs", spec.ExternalCIDRs, &n.External},
		{"remapPools", spec.RemapPools, &n.Remap},
		{"reservedCIDRs", spec.ReservedCIDRs, &n.Reserved},
	} {
		prefixes, err := cidrs.Parse(list.texts)
		if err != nil {
			n.Problem = fmt.Sprintf("in spec.%s, %v; correct it", list.field, err)
		}
		*list.into = prefixes
		if _, err := ipam.NewSpace(prefixes, nil); err != nil && list.field != "reservedCIDRs" {
			n.Problem = fmt.Sprintf("spec.%s: %v", list.field, err)
		}
	}
	if n.Problem == "" {
		n.Problem = n.overlap()
	}
	return n
}

// overlap returns a problem if an address pool overlaps CIDRs of the cluster. Remap pools
// may overlap them: what is in use is not allocated from them.
func (n *Network) overlap() string {
	uses := n.Uses()
	for _, pool := range n.AddressPools() {
		for _, used := range uses {
			if pool.Prefix.Overlaps(used.Prefix) {
				return fmt.Sprintf("%s %v overlaps %s %v; choose another CIDR in spec.internalCIDRs or spec.externalCIDRs",
					pool.Use, pool.Prefix, used.Use, used.Prefix)
			}
		}
	}
	return ""
}

// Uses returns the CIDRs that this cluster uses independently of Strait.
func (n *Network) Uses() []ipam.Reserved {
	return slices.Concat(
		Reserve("this cluster's pod CIDR", n.Pods),
		Reserve("this cluster's service CIDR", n.Services),
		Reserve("this cluster's node CIDR", n.Nodes),
		Reserve("this cluster's API server", n.APIServers),
		Reserve("the reserved CIDR", n.Reserved))
}

// Reservations returns all CIDRs into which no remote CIDR may be mapped.
func (n *Network) Reservations() []ipam.Reserved { return slices.Concat(n.Uses(), n.AddressPools()) }

// AddressPools returns the pools of addresses of nodes and gateways.
func (n *Network) AddressPools() []ipam.Reserved {
	return slices.Concat(
		Reserve("this cluster's internal CIDR", n.Internal),
		Reserve("this cluster's external CIDR", n.External))
}

// InternalOf returns the internal CIDRs that addresses of an IP family are allocated from.
// Without pods that have IPv6, nodes may not support it: then there are none of IPv6, unless
// there are no others.
func (n *Network) InternalOf(is4 bool) []netip.Prefix {
	pods6 := slices.ContainsFunc(n.Pods, func(p netip.Prefix) bool { return p.Addr().Is6() })
	if !is4 && !pods6 && len(cidrs.OfFamily(n.Internal, true)) > 0 {
		return nil
	}
	return cidrs.OfFamily(n.Internal, is4)
}

// Reserve returns prefixes with their use, for messages.
func Reserve(use string, prefixes []netip.Prefix) (all []ipam.Reserved) {
	for _, p := range prefixes {
		all = append(all, ipam.Reserved{Prefix: p, Use: use})
	}
	return all
}

// Status returns the desired status of a ClusterNetwork.
func (n *Network) Status(of *v1alpha1.ClusterNetwork) v1alpha1.ClusterNetworkStatus {
	s := v1alpha1.ClusterNetworkStatus{
		ObservedGeneration: of.Generation,
		ClusterID:          n.ClusterID,
		PodCIDRs:           cidrs.Texts(n.Pods),
		ServiceCIDRs:       cidrs.Texts(n.Services),
		NodeCIDRs:          cidrs.Texts(n.Nodes),
		WithoutNodes:       n.WithoutNodes,
		Sources:            n.sources,
		Conditions:         condition.Own(of.Status.Conditions, v1alpha1.ConditionDetected, v1alpha1.ConditionReady, v1alpha1.ConditionNodesAttached),
	}
	for _, p := range n.APIServers {
		s.APIServers = append(s.APIServers, v1alpha1.IP(p.Addr().String()))
	}
	s.APIServers = limited(s.APIServers, maxAPIServers)
	if n.WithoutNodes {
		for _, a := range n.GatewayPods {
			s.Gateways = append(s.Gateways, v1alpha1.IP(a.String()))
		}
		s.Gateways = limited(s.Gateways, maxGatewayAddresses)
	}
	detected := metav1.Condition{Type: v1alpha1.ConditionDetected, Status: metav1.ConditionTrue, Reason: "Detected",
		Message: "the CIDRs of pods, Services and nodes are known", ObservedGeneration: of.Generation}
	if len(n.undetected) > 0 {
		detected.Status, detected.Reason, detected.Message = metav1.ConditionFalse, "NotFound", strings.Join(n.undetected, "; ")
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Configured",
		Message: "CIDRs and addresses can be allocated", ObservedGeneration: of.Generation}
	if n.Problem != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "CannotAllocate", n.Problem
	}
	meta.SetStatusCondition(&s.Conditions, detected)
	meta.SetStatusCondition(&s.Conditions, ready)
	switch {
	case n.WithoutNodes:
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionNodesAttached)
	case n.Attached != nil:
		attached := *n.Attached
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
