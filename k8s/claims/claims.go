// Package claims stores allocations of CIDRs and addresses as AddressClaims, by the rules
// of package ipam.
//
// Any number of processes may call Ensure concurrently without a leader, and each may stop
// between any two requests: two conflicting claims are never both in effect. No state is
// kept between calls.
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

// Spec is the content of a claim and its identity.
type Spec = v1alpha1.AddressClaimSpec

// Owners decides which claims are wanted and which are released.
type Owners interface {
	// Wanted returns the desired claims, given the existing ones that do not lose a
	// conflict. It is called again after each change, so it should want what is already
	// held.
	Wanted(held []Spec) []Spec

	// Released reports whether an unwanted claim is no longer used. Only then is it
	// deleted. It has to read the owner from the API server, because a cache may be stale,
	// and return an error if that fails.
	Released(ctx context.Context, claim Spec) (bool, error)
}

// ErrUnsettled means that other processes changed claims as fast as Ensure did. Call it
// again later.
var ErrUnsettled = errors.New("claims: conflicting concurrent changes by other processes; trying again")

// rounds is the limit of rounds of listing and changing before ErrUnsettled. A call that is alone needs up to
// four: create, bind, release what was in the way, and see that nothing is left to do.
const rounds = 16

// Ensure creates and binds the claims that the owners want, and deletes those that are
// released. It returns the wanted claims that are bound; a missing one waits for claims
// that are still in use, or belongs to another owner. After an error the state is not
// known: claims that were bound may still be used.
func Ensure(ctx context.Context, c *client.Client, o Owners) (inForce []Spec, err error) {
	for range rounds {
		// One request and no cache, as ipam.Decide requires.
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

// Grant converts the spec of a claim for package ipam. A claim of a CIDR without For, made
// to keep the CIDR for other uses, counts as one for the same CIDR.
func Grant(s Spec) ipam.Grant {
	g := ipam.Grant{Owner: Use(s.Pool, s.Owner)}
	var err error
	if g.Prefix, err = netip.ParsePrefix(string(s.Prefix)); err != nil {
		return g // the zero Prefix is malformed
	}
	switch {
	case s.For != "":
		if g.Wanted, err = netip.ParsePrefix(string(s.For)); err != nil {
			g.Prefix = netip.Prefix{} // otherwise the claim would be for any address
		}
	case !g.Prefix.IsSingleIP():
		g.Wanted = g.Prefix
	}
	return g
}

// Use describes the use of a pool by an owner, as the owner of a grant and for messages.
func Use(pool v1alpha1.Pool, o v1alpha1.ClaimOwner) string {
	if pool == v1alpha1.PoolRemap {
		return fmt.Sprintf("%s %s", o.Kind, o.Name)
	}
	return fmt.Sprintf("%s address of %s %s", pool, o.Kind, o.Name)
}
