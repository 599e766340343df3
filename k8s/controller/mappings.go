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

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

func mappingOwner(name string) v1alpha1.ClaimOwner {
	return v1alpha1.ClaimOwner{Kind: kindMapping, Name: name}
}

// mappedTo is the claim for the external address of a mapping. That it cannot have it is
// noted. What it can have is taken from the addresses, so that no node gets it. Claimed is
// what is held, and what earlier mappings have.
func (p *plan) mappedTo(m *v1alpha1.AddressMapping, from *addresses, claimed []claims.Spec) (wanted []claims.Spec) {
	a, err := netip.ParseAddr(string(m.Spec.External))
	if err != nil {
		p.unmapped[m.Name] = condition(metav1.ConditionFalse, "NoAddress", "%q is not an address; write one like 10.70.1.9", m.Spec.External)
		return nil
	}
	spec := claims.Spec{Prefix: v1alpha1.CIDR(single(a).String()), Pool: v1alpha1.PoolExternal, Owner: mappingOwner(m.Name)}
	if !slices.ContainsFunc(p.network.external, func(pool netip.Prefix) bool { return pool.Contains(a) }) {
		p.unmapped[m.Name] = condition(metav1.ConditionFalse, "Outside", "%s is in none of spec.externalCIDRs of ClusterNetwork %s; choose an address of these, or add a range with it there",
			a, v1alpha1.ClusterNetworkName)
		return nil
	}
	for _, other := range claimed {
		if taken := claims.Grant(other).Prefix; other.Owner != spec.Owner && taken.IsValid() && taken.Contains(a) {
			p.unmapped[m.Name] = condition(metav1.ConditionFalse, "Taken", "%s is taken: it is the %s; choose another one", a, claims.Use(other.Pool, other.Owner))
			return nil
		}
	}
	from.takeExternal(claims.Grant(spec))
	return []claims.Spec{spec}
}

// takeExternal keeps an address from nodes and gateways.
func (a *addresses) takeExternal(g ipam.Grant) {
	for _, pool := range slices.Concat(a.nodes, a.gateways) {
		if pool.of == v1alpha1.PoolExternal {
			_ = pool.space.Take(g) // well-formed: an owner and one address
		}
	}
}

// releasedByMapping reports whether a mapping is gone, or names another address now.
func (p *plan) releasedByMapping(ctx context.Context, claim claims.Spec) (bool, error) {
	m, err := p.client.AddressMappings().Get(ctx, claim.Owner.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	a, err := netip.ParseAddr(string(m.Spec.External))
	return err != nil || single(a) != claims.Grant(claim).Prefix, nil
}

// reportMappings brings the status of each mapping up to date. What is wrong with one
// stops no other.
func (c *controller) reportMappings(ctx context.Context, p *plan, inForce []claims.Spec) error {
	var failed []error
	for _, m := range p.mappings {
		status := mappingStatus(m, p, inForce)
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

// mappingStatus is what a mapping shall say.
func mappingStatus(m *v1alpha1.AddressMapping, p *plan, inForce []claims.Spec) v1alpha1.AddressMappingStatus {
	s := v1alpha1.AddressMappingStatus{ObservedGeneration: m.Generation, Conditions: ownConditions(m.Status.Conditions, v1alpha1.ConditionReserved, v1alpha1.ConditionReady)}
	set := func(kind string, c metav1.Condition) {
		c.Type, c.ObservedGeneration, c.LastTransitionTime = kind, m.Generation, metav1.Time{Time: p.now.Truncate(1e9)}
		meta.SetStatusCondition(&s.Conditions, c)
	}
	is := p.reserved(m, inForce)
	set(v1alpha1.ConditionReserved, is)
	if is.Status == metav1.ConditionTrue {
		is = served(m, p.peerings)
	}
	set(v1alpha1.ConditionReady, is)
	return s
}

// reserved says whether a mapping has its external address. Gateways serve it from then
// on; also while the ClusterNetwork is not ready, for what is held stays.
func (p *plan) reserved(m *v1alpha1.AddressMapping, inForce []claims.Spec) metav1.Condition {
	refused, ok := p.unmapped[m.Name]
	claimed := slices.ContainsFunc(inForce, func(spec claims.Spec) bool {
		return spec.Owner == mappingOwner(m.Name) && claims.Grant(spec).Prefix.Addr().String() == string(m.Spec.External)
	})
	switch {
	case ok:
		return refused
	case claimed:
		return condition(metav1.ConditionTrue, "Claimed", "%s is reserved for it", m.Spec.External)
	case p.network.problem != "":
		return condition(metav1.ConditionUnknown, "ClusterNetworkNotReady", "ClusterNetwork %s is not ready: %s", v1alpha1.ClusterNetworkName, p.network.problem)
	}
	return condition(metav1.ConditionFalse, "Waiting", "%s waits for AddressClaims that are still in use to become free", m.Spec.External)
}

// served says whether all gateways serve a mapping as it is now, by what they say
// themselves.
func served(m *v1alpha1.AddressMapping, peerings []*v1alpha1.Peering) metav1.Condition {
	this := v1alpha1.ServedMapping{Name: m.Name, Generation: m.Generation}
	var waiting []string
	gateways := 0
	for _, peering := range peerings {
		for _, name := range gatewayNames(peering) {
			gateways++
			if !slices.ContainsFunc(peering.Status.Gateways, func(g v1alpha1.GatewayStatus) bool {
				return g.Name == name && slices.Contains(g.Mappings, this)
			}) {
				waiting = append(waiting, name)
			}
		}
	}
	slices.Sort(waiting)
	switch {
	case gateways == 0:
		return condition(metav1.ConditionFalse, "NoGateway", "%s is reserved for it, but no gateway is there to serve it; create a Peering", m.Spec.External)
	case len(waiting) > 0:
		return condition(metav1.ConditionFalse, "NotServed", "%s is reserved for it, but %s not serve it; if that lasts, see in its log what it says of AddressMapping %s, and whether its version of Strait serves mappings",
			m.Spec.External, someDo(waiting), m.Name)
	}
	return condition(metav1.ConditionTrue, "Served", "%s stands for %s at all gateways", m.Spec.External, m.Spec.Target)
}

// someDo names the first of several gateways, with the verb that goes with them.
func someDo(names []string) string {
	if len(names) == 1 {
		return "gateway " + names[0] + " does"
	}
	return fmt.Sprintf("gateway %s and %d more do", names[0], len(names)-1)
}
