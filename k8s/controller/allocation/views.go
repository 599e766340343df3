package allocation

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/network"
)

// Views computes the mappings of remote CIDRs in this cluster.
type Views struct {
	reserved []ipam.Reserved
	held     []claims.Spec
	space    *ipam.Space
}

// Outcome is the mapping of one remote CIDR.
type Outcome struct {
	CIDR   v1alpha1.CIDR
	Claim  claims.Spec // the zero Spec: not mapped
	Moved  bool        // or rejected: the CIDR itself is not free in this cluster
	Reason string      // a phrase for messages
}

// NewViews returns the free space of the remap pools, less what is held. The error names
// the invalid pool.
func NewViews(n *network.Network, held []claims.Spec) (*Views, error) {
	v := &Views{reserved: n.Reservations(), held: held}
	var err error
	if v.space, err = ipam.NewSpace(n.Remap, v.reserved); err != nil {
		return nil, err
	}
	for _, spec := range held {
		_ = v.space.Take(claims.Grant(spec)) // malformed claims are never bound
	}
	return v, nil
}

// Of returns the mappings of the remote CIDRs of a peering, in their order, and allocates
// them. CIDRs that are not listed never keep their addresses, so that a remote cluster
// cannot choose which destinations of this cluster it takes over.
func (v *Views) Of(peering string, prefixes v1alpha1.RemotePrefixes, listed func(v1alpha1.CIDR) bool) []Outcome {
	owner := v1alpha1.ClaimOwner{Kind: KindPeering, Name: peering}
	all := make([]Outcome, len(prefixes))
	var free []ipam.Remote // those without seenAs
	var places []int       // their positions in all
	for i, p := range prefixes {
		if p.SeenAs != "" {
			all[i] = v.fixed(prefixes, owner, p)
			v.take(all[i])
			continue
		}
		cidr, err := netip.ParsePrefix(string(p.CIDR))
		if err != nil {
			all[i] = Outcome{CIDR: p.CIDR, Moved: true, Reason: fmt.Sprintf("%q is not a prefix", p.CIDR)}
			continue
		}
		r := ipam.Remote{CIDR: cidr}
		if !listed(p.CIDR) {
			r.Moved = fmt.Sprintf("%s was announced by the remote cluster, and is not listed in the Peering", p.CIDR)
		}
		free, places = append(free, r), append(places, i)
	}
	plan, err := v.space.Plan(claims.Use(v1alpha1.PoolRemap, owner), free)
	for i, r := range free {
		one := Outcome{CIDR: prefixes[places[i]].CIDR}
		if err == nil {
			one.Claim = viewClaim(owner, one.CIDR, v1alpha1.CIDR(plan[i].SeenAs.String()))
			one.Moved, one.Reason = plan[i].SeenAs != r.CIDR, plan[i].Reason
		} else {
			one.Claim, one.Moved, one.Reason = v.kept(owner, one.CIDR), true, err.Error()
		}
		v.take(one)
		all[places[i]] = one
	}
	return all
}

func (v *Views) take(one Outcome) {
	if one.Claim != (claims.Spec{}) {
		_ = v.space.Take(claims.Grant(one.Claim)) // valid: checked by the API server, or made by a plan
	}
}

// fixed returns the mapping of a CIDR with seenAs, one of all of the peering's: that CIDR
// or none.
func (v *Views) fixed(all v1alpha1.RemotePrefixes, owner v1alpha1.ClaimOwner, p v1alpha1.RemotePrefix) Outcome {
	spec := viewClaim(owner, p.CIDR, p.SeenAs)
	at := claims.Grant(spec).Prefix
	if other, used := firstOverlap(at, v.reserved); used {
		return Outcome{CIDR: p.CIDR, Moved: true, Reason: fmt.Sprintf("%v overlaps %s %v", at, other.Use, other.Prefix)}
	}
	for _, held := range v.held {
		other := claims.Grant(held)
		if !other.Prefix.IsValid() || !other.Prefix.Overlaps(at) || held.Owner == owner && !keeps(all, p, held) {
			continue
		}
		return Outcome{CIDR: p.CIDR, Moved: true, Reason: fmt.Sprintf("%v overlaps the grant of %s %v", at, other.Owner, other.Prefix)}
	}
	return Outcome{CIDR: p.CIDR, Claim: spec, Reason: fmt.Sprintf("seenAs of the peering maps %s to %s", p.CIDR, p.SeenAs)}
}

// keeps reports whether a peering needs what it holds for another of its CIDRs than p.
func keeps(all v1alpha1.RemotePrefixes, p v1alpha1.RemotePrefix, held claims.Spec) bool {
	return slices.ContainsFunc(all, func(other v1alpha1.RemotePrefix) bool {
		return other != p && other.CIDR == held.For && (other.SeenAs == "" || other.SeenAs == held.Prefix)
	})
}

// kept returns what the owner holds for a CIDR, if it may still be used: an error for
// another of its CIDRs is no reason to release this one.
func (v *Views) kept(owner v1alpha1.ClaimOwner, cidr v1alpha1.CIDR) claims.Spec {
	for _, held := range v.held {
		if _, used := firstOverlap(claims.Grant(held).Prefix, v.reserved); !used && held.Owner == owner && held.For == cidr {
			return held
		}
	}
	return claims.Spec{}
}

func viewClaim(owner v1alpha1.ClaimOwner, cidr, seenAs v1alpha1.CIDR) claims.Spec {
	return claims.Spec{Prefix: seenAs, Pool: v1alpha1.PoolRemap, Owner: owner, For: cidr}
}
