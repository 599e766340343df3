package controller

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// network is this cluster as allocation sees it.
type network struct {
	ranges
	internal, external, remap []netip.Prefix // the pools
	reserved                  []netip.Prefix // of the spec
	problem                   string         // why nothing may be allocated, with the remedy; "" if something may
}

// newNetwork is what a ClusterNetwork wants, checked against what the cluster uses.
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

// overlap says which pool the cluster uses for something else. Remap pools may be: what
// is used is left out of them.
func (n *network) overlap() string {
	uses := n.uses()
	for _, pool := range n.addressPools() {
		for _, used := range uses {
			if pool.Prefix.Overlaps(used.Prefix) {
				return fmt.Sprintf("%s %v overlaps %s %v; choose another range in spec.internalCIDRs or spec.externalCIDRs",
					pool.Use, pool.Prefix, used.Use, used.Prefix)
			}
		}
	}
	return ""
}

// uses are the ranges that mean something in this cluster without Strait.
func (n *network) uses() []ipam.Reserved {
	return slices.Concat(
		reserve("this cluster's pod CIDR", n.pods),
		reserve("this cluster's service CIDR", n.services),
		reserve("this cluster's node CIDR", n.nodes),
		reserve("this cluster's API server", n.apiServers),
		reserve("the reserved CIDR", n.reserved))
}

// reservations are all ranges in which nothing of another cluster may be seen.
func (n *network) reservations() []ipam.Reserved { return slices.Concat(n.uses(), n.addressPools()) }

func (n *network) addressPools() []ipam.Reserved {
	return slices.Concat(
		reserve("this cluster's internal CIDR", n.internal),
		reserve("this cluster's external CIDR", n.external))
}

func reserve(use string, prefixes []netip.Prefix) (all []ipam.Reserved) {
	for _, p := range prefixes {
		all = append(all, ipam.Reserved{Prefix: p, Use: use})
	}
	return all
}

// status is what a ClusterNetwork shall say.
func (n *network) status(of *v1alpha1.ClusterNetwork) v1alpha1.ClusterNetworkStatus {
	s := v1alpha1.ClusterNetworkStatus{
		ObservedGeneration: of.Generation,
		ClusterID:          n.clusterID,
		PodCIDRs:           cidrs(n.pods),
		ServiceCIDRs:       cidrs(n.services),
		NodeCIDRs:          cidrs(n.nodes),
		Sources:            n.sources,
		Conditions:         ownConditions(of.Status.Conditions, v1alpha1.ConditionDetected, v1alpha1.ConditionReady),
	}
	detected := metav1.Condition{Type: v1alpha1.ConditionDetected, Status: metav1.ConditionTrue, Reason: "Known",
		Message: "the ranges of pods, services and nodes are known", ObservedGeneration: of.Generation}
	if len(n.undetected) > 0 {
		detected.Status, detected.Reason, detected.Message = metav1.ConditionFalse, "NotFound", strings.Join(n.undetected, "; ")
	}
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "AsWished",
		Message: "ranges and addresses can be allocated", ObservedGeneration: of.Generation}
	if n.problem != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, "CannotAllocate", n.problem
	}
	meta.SetStatusCondition(&s.Conditions, detected)
	meta.SetStatusCondition(&s.Conditions, ready)
	return s
}

// ownConditions are the conditions of some types: those that are owned.
func ownConditions(all []metav1.Condition, types ...string) (owned []metav1.Condition) {
	for _, t := range types {
		if c := meta.FindStatusCondition(all, t); c != nil {
			owned = append(owned, *c)
		}
	}
	return owned
}

// observe creates the ClusterNetwork where it is missing, brings its status up to date,
// and returns what it says.
func (c *controller) observe(ctx context.Context) (*network, error) {
	object, ok := c.networks.Get(v1alpha1.ClusterNetworkName)
	if !ok {
		var err error
		// Applied, so that the defaults belong to nobody, and an admin can apply others.
		object, err = c.client.ClusterNetworks().Apply(ctx, &v1alpha1.ClusterNetwork{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName, Annotations: c.installation.annotations()},
		}, Manager)
		if err != nil {
			return nil, fmt.Errorf("ClusterNetwork %s: %w", v1alpha1.ClusterNetworkName, err)
		}
	}
	object, refused, err := c.install(ctx, object)
	if err != nil {
		return nil, err
	}
	f, err := gather(ctx, c.client, c.log)
	if err != nil {
		return nil, fmt.Errorf("detect what the cluster uses: %w", err)
	}
	n := newNetwork(object.Spec, detect(object.Spec, f, c.nodes.List()))
	if refused != "" {
		n.problem = refused
	}
	status := n.status(object)
	if !reflect.DeepEqual(status, object.Status) {
		if _, err := c.client.ClusterNetworks().ApplyStatus(ctx, &v1alpha1.ClusterNetwork{
			ObjectMeta: metav1.ObjectMeta{Name: object.Name}, Status: status,
		}, Manager); err != nil {
			return nil, fmt.Errorf("status of ClusterNetwork %s: %w", object.Name, err)
		}
		c.tell(time.Now(), "ClusterNetwork", object, object.Status.Conditions, status.Conditions)
	}
	return n, nil
}
