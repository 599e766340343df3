package controller

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

// views computes the mappings of remote CIDRs in this cluster.
type views struct {
	reserved []ipam.Reserved
	held     []claims.Spec
	space    *ipam.Space
}

// outcome is the mapping of one remote CIDR.
type outcome struct {
	cidr   v1alpha1.CIDR
	claim  claims.Spec // the zero Spec: not mapped
	moved  bool        // or rejected: the CIDR itself is not free in this cluster
	reason string      // a phrase for messages
}

// newViews returns the free space of the remap pools, less what is held. The error names
// the invalid pool.
func newViews(n *network, held []claims.Spec) (*views, error) {
	v := &views{reserved: n.reservations(), held: held}
	var err error
	if v.space, err = ipam.NewSpace(n.remap, v.reserved, nil); err != nil {
		return nil, err
	}
	for _, spec := range held {
		_ = v.space.Take(claims.Grant(spec)) // malformed claims are never bound
	}
	return v, nil
}

// of returns the mappings of the remote CIDRs of a peering, in their order, and allocates
// them. CIDRs that are not listed never keep their addresses, so that a remote cluster
// cannot choose which destinations of this cluster it takes over.
func (v *views) of(peering string, prefixes v1alpha1.RemotePrefixes, listed func(v1alpha1.CIDR) bool) []outcome {
	owner := v1alpha1.ClaimOwner{Kind: kindPeering, Name: peering}
	all := make([]outcome, len(prefixes))
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
			all[i] = outcome{cidr: p.CIDR, moved: true, reason: fmt.Sprintf("%q is not a prefix", p.CIDR)}
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
		one := outcome{cidr: prefixes[places[i]].CIDR}
		if err == nil {
			one.claim = viewClaim(owner, one.cidr, v1alpha1.CIDR(plan[i].SeenAs.String()))
			one.moved, one.reason = plan[i].SeenAs != r.CIDR, plan[i].Reason
		} else {
			one.claim, one.moved, one.reason = v.kept(owner, one.cidr), true, err.Error()
		}
		v.take(one)
		all[places[i]] = one
	}
	return all
}

func (v *views) take(one outcome) {
	if one.claim != (claims.Spec{}) {
		_ = v.space.Take(claims.Grant(one.claim)) // valid: checked by the API server, or made by a plan
	}
}

// fixed returns the mapping of a CIDR with seenAs, one of all of the peering's: that CIDR
// or none.
func (v *views) fixed(all v1alpha1.RemotePrefixes, owner v1alpha1.ClaimOwner, p v1alpha1.RemotePrefix) outcome {
	spec := viewClaim(owner, p.CIDR, p.SeenAs)
	at := claims.Grant(spec).Prefix
	if other, used := firstOverlap(at, v.reserved); used {
		return outcome{cidr: p.CIDR, moved: true, reason: fmt.Sprintf("%v overlaps %s %v", at, other.Use, other.Prefix)}
	}
	for _, held := range v.held {
		other := claims.Grant(held)
		if !other.Prefix.IsValid() || !other.Prefix.Overlaps(at) || held.Owner == owner && !keeps(all, p, held) {
			continue
		}
		return outcome{cidr: p.CIDR, moved: true, reason: fmt.Sprintf("%v overlaps the grant of %s %v", at, other.Owner, other.Prefix)}
	}
	return outcome{cidr: p.CIDR, claim: spec, reason: fmt.Sprintf("seenAs of the peering maps %s to %s", p.CIDR, p.SeenAs)}
}

// keeps reports whether a peering needs what it holds for another of its CIDRs than p.
func keeps(all v1alpha1.RemotePrefixes, p v1alpha1.RemotePrefix, held claims.Spec) bool {
	return slices.ContainsFunc(all, func(other v1alpha1.RemotePrefix) bool {
		return other != p && other.CIDR == held.For && (other.SeenAs == "" || other.SeenAs == held.Prefix)
	})
}

// kept returns what the owner holds for a CIDR, if it may still be used: an error for
// another of its CIDRs is no reason to release this one.
func (v *views) kept(owner v1alpha1.ClaimOwner, cidr v1alpha1.CIDR) claims.Spec {
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
