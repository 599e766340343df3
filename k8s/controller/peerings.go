package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

// report brings the status of each peering up to date with what is in force. What is
// wrong with one stops no other.
func (c *controller) report(ctx context.Context, p *plan, inForce []claims.Spec) error {
	var problems []error
	granted := p.network.addressesByOwner(inForce)
	for _, peering := range p.peerings {
		status := peeringStatus(peering, p, inForce, granted)
		if reflect.DeepEqual(status, ownStatus(peering)) {
			continue
		}
		_, err := c.client.Peerings().ApplyStatus(ctx, &v1alpha1.Peering{
			ObjectMeta: metav1.ObjectMeta{Name: peering.Name}, Status: status,
		}, Manager)
		if err != nil && !apierrors.IsNotFound(err) {
			problems = append(problems, fmt.Errorf("status of Peering %s: %w", peering.Name, err))
		}
	}
	return errors.Join(problems...)
}

// peeringStatus is our part of what a peering shall say.
func peeringStatus(peering *v1alpha1.Peering, p *plan, inForce []claims.Spec, granted map[v1alpha1.ClaimOwner]grantedAddresses) v1alpha1.PeeringStatus {
	owner := v1alpha1.ClaimOwner{Kind: kindPeering, Name: peering.Name}
	seen := make(map[v1alpha1.CIDR]v1alpha1.CIDR)
	for _, spec := range inForce {
		if spec.Owner == owner && spec.Pool == v1alpha1.PoolRemap && spec.For != "" {
			seen[spec.For] = spec.Prefix
		}
	}
	s := v1alpha1.PeeringStatus{
		ObservedGeneration: peering.Generation,
		Prefixes:           seenPrefixes(peering.Spec.Prefixes, seen),
		ExternalPrefixes:   seenPrefixes(peering.Spec.ExternalPrefixes, seen),
		Conditions:         own(peering.Status.Conditions, v1alpha1.ConditionCIDRConflict),
	}
	var remote, seenAs []string
	for _, prefix := range s.Prefixes {
		remote, seenAs = append(remote, string(prefix.CIDR)), append(seenAs, string(prefix.SeenAs))
	}
	s.Summary.RemoteCIDRs, s.Summary.SeenAs = strings.Join(remote, ","), strings.Join(seenAs, ",")
	for _, name := range gatewayNames(peering) {
		addresses := granted[v1alpha1.ClaimOwner{Kind: kindGateway, Name: name}]
		if len(addresses.internal) > 0 {
			s.Gateways = append(s.Gateways, v1alpha1.GatewayStatus{
				Name: name, Number: gatewayNumber(addresses.internal[0]),
				InternalAddresses: ips(addresses.internal), ExternalAddresses: ips(addresses.external),
			})
		}
	}
	conflict := conflictOf(peering, p, seen)
	conflict.ObservedGeneration = peering.Generation
	meta.SetStatusCondition(&s.Conditions, conflict)
	return s
}

// conflictOf says whether a range of the peering means something else here, in such a way
// that it cannot be seen.
func conflictOf(peering *v1alpha1.Peering, p *plan, seen map[v1alpha1.CIDR]v1alpha1.CIDR) metav1.Condition {
	condition := metav1.Condition{Type: v1alpha1.ConditionCIDRConflict, Status: metav1.ConditionFalse,
		Reason: "AsTheyAre", Message: "the ranges of the remote cluster are free here"}
	var unseen, moved []string
	for _, one := range p.views[peering.Name] {
		switch seenAs, ok := seen[one.cidr]; {
		case !ok && one.claim != (claims.Spec{}):
			unseen = append(unseen, fmt.Sprintf("%s waits for AddressClaims that are still in use to become free", one.cidr))
		case !ok:
			unseen = append(unseen, fmt.Sprintf("%s is not seen: %s; give its seenAs a range that is free here, or leave seenAs out and widen spec.remapPools of ClusterNetwork %s",
				one.cidr, one.reason, v1alpha1.ClusterNetworkName))
		case one.moved:
			moved = append(moved, fmt.Sprintf("%s is seen as %s: %s", one.cidr, seenAs, one.reason))
		}
	}
	was := meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionCIDRConflict)
	switch {
	case p.network.problem != "" && was != nil && len(seen) == len(remotePrefixes(peering)):
		condition = *was // everything is kept
	case p.network.problem != "":
		condition.Status, condition.Reason = metav1.ConditionUnknown, "ClusterNetworkNotReady"
		condition.Message = fmt.Sprintf("ClusterNetwork %s is not ready: %s", v1alpha1.ClusterNetworkName, p.network.problem)
	case len(unseen) > 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, "NotSeen", strings.Join(unseen, "; ")
	case len(moved) > 0:
		condition.Reason, condition.Message = "Remapped", strings.Join(moved, "; ")
	}
	return condition
}

func seenPrefixes(prefixes v1alpha1.RemotePrefixes, seen map[v1alpha1.CIDR]v1alpha1.CIDR) (all []v1alpha1.SeenPrefix) {
	for _, p := range prefixes {
		if seenAs, ok := seen[p.CIDR]; ok {
			all = append(all, v1alpha1.SeenPrefix{CIDR: p.CIDR, SeenAs: seenAs})
		}
	}
	return all
}

// ownStatus is our part of the status that a peering has. Gateways apply the rest.
func ownStatus(peering *v1alpha1.Peering) v1alpha1.PeeringStatus {
	is := &peering.Status
	s := v1alpha1.PeeringStatus{
		ObservedGeneration: is.ObservedGeneration,
		Prefixes:           is.Prefixes,
		ExternalPrefixes:   is.ExternalPrefixes,
		Summary:            v1alpha1.PeeringSummary{RemoteCIDRs: is.Summary.RemoteCIDRs, SeenAs: is.Summary.SeenAs},
		Conditions:         own(is.Conditions, v1alpha1.ConditionCIDRConflict),
	}
	for _, g := range is.Gateways {
		if g.Number != 0 {
			s.Gateways = append(s.Gateways, v1alpha1.GatewayStatus{
				Name: g.Name, Number: g.Number, InternalAddresses: g.InternalAddresses, ExternalAddresses: g.ExternalAddresses,
			})
		}
	}
	return s
}

// shown is all that the status of a peering lets others use.
func shown(peering *v1alpha1.Peering) (used []netip.Prefix) {
	for _, p := range slices.Concat(peering.Status.Prefixes, peering.Status.ExternalPrefixes) {
		if seenAs, err := netip.ParsePrefix(string(p.SeenAs)); err == nil {
			used = append(used, seenAs)
		}
	}
	for _, g := range peering.Status.Gateways {
		for _, a := range slices.Concat(addrs(g.InternalAddresses), addrs(g.ExternalAddresses)) {
			used = append(used, single(a))
		}
	}
	return used
}
