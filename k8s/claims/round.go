package claims

import (
	"context"
	"fmt"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// round is the set of actions that result from one list of all claims.
type round struct {
	inForce []Spec                  // wanted and bound
	create  []Spec                  // wanted, missing, and without conflict with remaining claims
	bind    []v1alpha1.AddressClaim // wanted, without conflict
	drop    []v1alpha1.AddressClaim // not bound, loses a conflict
	release []v1alpha1.AddressClaim // not wanted, or bound and loses a conflict: only after it is released
}

func newRound(listed []v1alpha1.AddressClaim, o Owners) round {
	claims := make([]ipam.Claim, len(listed))
	for i := range listed {
		claims[i] = ipam.Claim{Name: listed[i].Name, Grant: Grant(listed[i].Spec), Bound: listed[i].Status.Bound}
	}
	verdicts := ipam.Decide(claims)
	var held []Spec
	for i, claim := range listed {
		if verdicts[i] != ipam.Drop {
			held = append(held, claim.Spec)
		}
	}
	wanted := make(map[Spec]bool)
	for _, spec := range o.Wanted(held) {
		wanted[spec] = true
	}

	var r round
	for i, claim := range listed {
		switch verdict := verdicts[i]; {
		case verdict == ipam.Drop && !claim.Status.Bound:
			r.drop = append(r.drop, claim)
		case verdict == ipam.Drop || !wanted[claim.Spec]:
			r.release = append(r.release, claim)
		case verdict == ipam.Bind:
			r.bind = append(r.bind, claim)
		case verdict == ipam.Keep:
			r.inForce = append(r.inForce, claim.Spec)
		}
		delete(wanted, claim.Spec)
	}
	r.create = creatable(claims, wanted)
	return r
}

// creatable returns the missing claims that would not lose a conflict at once.
func creatable(claims []ipam.Claim, missing map[Spec]bool) (create []Spec) {
	var specs []Spec
	there := len(claims)
	for spec := range missing {
		if _, err := netip.ParsePrefix(string(spec.Prefix)); err != nil {
			continue
		}
		grant := Grant(spec)
		specs = append(specs, spec)
		claims = append(claims, ipam.Claim{Name: ipam.ClaimName(grant.Prefix), Grant: grant})
	}
	for i, verdict := range ipam.Decide(claims)[there:] {
		if verdict != ipam.Drop {
			create = append(create, specs[i])
		}
	}
	return create
}

// carryOut performs the actions of the round, and reports whether any claim may have
// changed, by this or another writer.
func (r round) carryOut(ctx context.Context, c *client.Client, o Owners) (changed bool, err error) {
	for _, claim := range r.release {
		if released, err := o.Released(ctx, claim.Spec); err != nil {
			return false, fmt.Errorf("claims: check whether AddressClaim %s is in use: %w", claim.Name, err)
		} else if released {
			r.drop = append(r.drop, claim)
		}
	}
	for _, claim := range r.drop {
		exactly := &metav1.Preconditions{UID: &claim.UID, ResourceVersion: &claim.ResourceVersion}
		err := c.AddressClaims().Delete(ctx, claim.Name, metav1.DeleteOptions{Preconditions: exactly})
		if err := unlessOvertaken(err); err != nil {
			return false, fmt.Errorf("claims: delete AddressClaim %s: %w", claim.Name, err)
		}
	}
	for _, claim := range r.bind {
		claim.Status.Bound = true // of the listed version; the API server rejects any other
		_, err := c.AddressClaims().UpdateStatus(ctx, &claim, metav1.UpdateOptions{})
		if err := unlessOvertaken(err); err != nil {
			return false, fmt.Errorf("claims: bind AddressClaim %s: %w", claim.Name, err)
		}
	}
	for _, spec := range r.create {
		claim := &v1alpha1.AddressClaim{Spec: spec}
		claim.Name = ipam.ClaimName(Grant(spec).Prefix)
		_, err := c.AddressClaims().Create(ctx, claim, metav1.CreateOptions{})
		if err := unlessOvertaken(err); err != nil {
			return false, fmt.Errorf("claims: create AddressClaim %s: %w", claim.Name, err)
		}
	}
	return len(r.drop)+len(r.bind)+len(r.create) > 0, nil
}

// unlessOvertaken returns the error, unless another writer was faster: the next list shows
// its change.
func unlessOvertaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
