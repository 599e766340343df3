// Package claims keeps grants of ranges and addresses as AddressClaims, by the rules
// of package ipam.
//
// Any number of processes may call Ensure at once, none needs to lead, and each may
// end between any two requests: no two claims in conflict are ever both in force.
// Nothing is remembered between calls.
package claims

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

// Spec is what a claim says, and all that tells one from another.
type Spec = v1alpha1.AddressClaimSpec

// Owners know what is claimed for whom.
type Owners interface {
	// Wanted are the claims that there should be, given those that are there and do not
	// give way to others. It is asked again after each change of these, so that it should
	// want what is held already.
	Wanted(held []Spec) []Spec

	// Released reports whether nobody uses a claim any more that is not wanted. Only then
	// is it deleted. It has to ask the API server for the owner, as a cache may not have
	// it yet, and answer with an error when that does not know.
	Released(ctx context.Context, claim Spec) (bool, error)
}

// ErrUnsettled says that others changed claims as fast as Ensure did. Call it again,
// later.
var ErrUnsettled = errors.New("claims: others change them at the same time; nothing is wrong if this goes away by itself")

// rounds of listing and changing before ErrUnsettled. A call that is alone needs up to
// four: create, bind, release what was in the way, and see that nothing is left to do.
const rounds = 16

// Ensure makes the claims exist and be bound that the owners want, and deletes those
// that are released. It returns the wanted claims that are in force; what is missing
// among them waits for claims that are still used, or is somebody else's. After an
// error nothing is known: what was in force may be used on.
func Ensure(ctx context.Context, c *client.Client, o Owners) (inForce []Spec, err error) {
	for range rounds {
		// One request and no cache, as ipam.Decide demands.
		list, err := c.AddressClaims().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("claims: %w", err)
		}
		r := newRound(list.Items, o)
		changed, err := r.carryOut(ctx, c, o)
		if err != nil {
			return nil, err
		}
		if !changed {
			return r.inForce, nil
		}
	}
	return nil, ErrUnsettled
}

// ipamClaim is a claim as package ipam knows it. A claim whose prefix cannot be read is
// malformed there too: it is never bound.
func ipamClaim(c *v1alpha1.AddressClaim) ipam.Claim {
	return ipam.Claim{Name: c.Name, Grant: Grant(c.Spec), Bound: c.Status.Bound}
}

// Grant is what a claim grants. A claim of a range for nothing, as somebody may make one
// to keep the range for other uses, counts as one for the same range.
func Grant(s Spec) ipam.Grant {
	g := ipam.Grant{Owner: Use(s.Pool, s.Owner)}
	var err error
	if g.Prefix, err = netip.ParsePrefix(string(s.Prefix)); err != nil {
		return g // the zero Prefix is malformed
	}
	switch {
	case s.For != "":
		if g.Wanted, err = netip.ParsePrefix(string(s.For)); err != nil {
			g.Prefix = netip.Prefix{} // or else the claim would be for any address
		}
	case !g.Prefix.IsSingleIP():
		g.Wanted = g.Prefix
	}
	return g
}

// Use names what an owner uses a pool for, as the owner of a grant and for people.
func Use(pool v1alpha1.Pool, o v1alpha1.ClaimOwner) string {
	if pool == v1alpha1.PoolRemap {
		return fmt.Sprintf("%s %s", o.Kind, o.Name)
	}
	return fmt.Sprintf("%s address of %s %s", pool, o.Kind, o.Name)
}
