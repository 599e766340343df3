package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/condition"
)

func mappingOwner(name string) v1alpha1.ClaimOwner {
	return v1alpha1.ClaimOwner{Kind: allocation.KindMapping, Name: name}
}

// mappedTo returns the claim for the external address of a mapping, or records why the
// mapping cannot have it. The address is removed from the pools of nodes and gateways.
// claimed is what is held, including by earlier mappings.
func (p *plan) mappedTo(m *v1alpha1.AddressMapping, from *allocation.Addresses, claimed []claims.Spec) (wanted []claims.Spec) {
	a, err := netip.ParseAddr(string(m.Spec.External))
	if err != nil {
		p.unmapped[m.Name] = condition.New(metav1.ConditionFalse, "NoAddress", "%q is not an address; write one like 10.70.1.9", m.Spec.External)
		return nil
	}
	spec := claims.Spec{Prefix: v1alpha1.CIDR(cidrs.Single(a).String()), Pool: v1alpha1.PoolExternal, Owner: mappingOwner(m.Name)}
	if !slices.ContainsFunc(p.network.External, func(pool netip.Prefix) bool { return pool.Contains(a) }) {
		p.unmapped[m.Name] = condition.New(metav1.ConditionFalse, "Outside", "%s is not in spec.externalCIDRs of ClusterNetwork %s; choose an address in these, or add a CIDR that contains it",
			a, v1alpha1.ClusterNetworkName)
		return nil
	}
	for _, other := range claimed {
		if taken := claims.Grant(other).Prefix; other.Owner != spec.Owner && taken.IsValid() && taken.Contains(a) {
			p.unmapped[m.Name] = condition.New(metav1.ConditionFalse, "Taken", "%s is in use as the %s; choose another address", a, claims.Use(other.Pool, other.Owner))
			return nil
		}
	}
	from.TakeExternal(claims.Grant(spec))
	return []claims.Spec{spec}
}

func (p *plan) releasedByMapping(ctx context.Context, claim claims.Spec) (bool, error) {
	m, err := p.client.AddressMappings().Get(ctx, claim.Owner.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	a, err := netip.ParseAddr(string(m.Spec.External))
	return err != nil || cidrs.Single(a) != claims.Grant(claim).Prefix, nil
}

// reportMappings updates the status of each mapping. An error for one does not affect
// others.
func (c *controller) reportMappings(ctx context.Context, p *plan, pods gatewayPods, inForce []claims.Spec) error {
	var failed []error
	for _, m := range p.mappings {
		status := mappingStatus(m, p, pods, inForce)
		if reflect.DeepEqual(status, m.Status) {
			continue
		}
		_, err := c.client.AddressMappings().ApplyStatus(ctx, &v1alpha1.AddressMapping{
			ObjectMeta: metav1.ObjectMeta{Name: m.Name}, Status: status,
		}, Manager)
		if err != nil && !apierrors.IsNotFound(err) {
			failed = append(failed, fmt.Errorf("status of AddressMapping %s: %w", m.Name, err))
		}
	}
	return errors.Join(failed...)
}

func mappingStatus(m *v1alpha1.AddressMapping, p *plan, pods gatewayPods, inForce []claims.Spec) v1alpha1.AddressMappingStatus {
	s := v1alpha1.AddressMappingStatus{ObservedGeneration: m.Generation, Conditions: condition.Own(m.Status.Conditions, v1alpha1.ConditionReserved, v1alpha1.ConditionReady)}
	set := func(kind string, c metav1.Condition) {
		c.Type, c.ObservedGeneration, c.LastTransitionTime = kind, m.Generation, metav1.Time{Time: p.now.Truncate(1e9)}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	is := p.reserved(m, inForce)
	set(v1alpha1.ConditionReserved, is)
	if is.Status == metav1.ConditionTrue {
		is = served(m, p.peerings, pods)
	}
	set(v1alpha1.ConditionReady, is)
	return s
}

// reserved returns the condition Reserved of a mapping. Once it is true, gateways serve the
// mapping, even while the ClusterNetwork is not ready, because held claims are kept.
func (p *plan) reserved(m *v1alpha1.AddressMapping, inForce []claims.Spec) metav1.Condition {
	refused, ok := p.unmapped[m.Name]
	claimed := slices.ContainsFunc(inForce, func(spec claims.Spec) bool {
		return spec.Owner == mappingOwner(m.Name) && claims.Grant(spec).Prefix.Addr().String() == string(m.Spec.External)
	})
	switch {
	case ok:
		return refused
	case claimed:
		return condition.New(metav1.ConditionTrue, "Claimed", "%s is reserved", m.Spec.External)
	case p.network.Problem != "":
		return condition.New(metav1.ConditionUnknown, "ClusterNetworkNotReady", "ClusterNetwork %s is not ready: %s", v1alpha1.ClusterNetworkName, p.network.Problem)
	}
	return condition.New(metav1.ConditionFalse, "Waiting", "%s is waiting for AddressClaims in use to be released", m.Spec.External)
}

// served returns the condition Ready of a mapping: whether all gateways report that they
// serve it in its current generation.
func served(m *v1alpha1.AddressMapping, peerings []*v1alpha1.Peering, pods gatewayPods) metav1.Condition {
	this := v1alpha1.ServedMapping{Name: m.Name, Generation: m.Generation}
	var waiting []string
	gateways := 0
	for _, peering := range peerings {
		for _, name := range gatewayNames(peering) {
			gateways++
			if report := pods[name].report; report == nil || !slices.Contains(report.Mappings, this) {
				waiting = append(waiting, name)
			}
		}
	}
	slices.Sort(waiting)
	switch {
	case gateways == 0:
		return condition.New(metav1.ConditionFalse, "NoGateway", "%s is reserved, but there is no gateway to serve it; create a Peering", m.Spec.External)
	case len(waiting) > 0:
		return condition.New(metav1.ConditionFalse, "NotServed", "%s is reserved, but %s not serve it; if this persists, check its log for AddressMapping %s, and whether its version of Strait supports mappings",
			m.Spec.External, someDo(waiting), m.Name)
	}
	return condition.New(metav1.ConditionTrue, "Served", "all gateways map %s to %s", m.Spec.External, m.Spec.Target)
}

// someDo names the first of several gateways with "does" or "do".
func someDo(names []string) string {
	if len(names) == 1 {
		return "gateway " + names[0] + " does"
	}
	return fmt.Sprintf("gateway %s and %d more do", names[0], len(names)-1)
}
