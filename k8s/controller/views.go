package controller

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

// views are where this cluster sees ranges of others.
type views struct {
	reserved []ipam.Reserved
	held     []claims.Spec
	space    *ipam.Space
}

// outcome is where one range is to be seen.
type outcome struct {
	cidr   v1alpha1.CIDR
	claim  claims.Spec // the zero Spec: nowhere
	moved  bool        // or kept out: the range itself is not free here
	reason string      // a phrase for people
}

// newViews is what is free beside what is held. The error names the pool at fault.
func newViews(n *network, held []claims.Spec) (*views, error) {
	v := &views{reserved: n.reservations(), held: held}
	var err error
	if v.space, err = ipam.NewSpace(n.remap, v.reserved, nil); err != nil {
		return nil, err
	}
	for _, spec := range held {
		_ = v.space.Take(claims.Grant(spec)) // what is malformed is never bound
	}
	return v, nil
}

// of is where the ranges of a peering's remote cluster are to be seen, in their order.
// What is found is taken.
func (v *views) of(peering string, prefixes v1alpha1.RemotePrefixes) []outcome {
	owner := v1alpha1.ClaimOwner{Kind: kindPeering, Name: peering}
	all := make([]outcome, len(prefixes))
	var free []netip.Prefix // those that the peering does not say where to see
	var places []int        // of them among all
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
		free, places = append(free, cidr), append(places, i)
	}
	plan, err := v.space.Plan(claims.Use(v1alpha1.PoolRemap, owner), free)
	for i, cidr := range free {
		one := outcome{cidr: prefixes[places[i]].CIDR}
		if err == nil {
			one.claim = viewClaim(owner, one.cidr, v1alpha1.CIDR(plan[i].SeenAs.String()))
			one.moved, one.reason = plan[i].SeenAs != cidr, plan[i].Reason
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
		_ = v.space.Take(claims.Grant(one.claim)) // well-formed: checked by the API server, or a plan's
	}
}

// fixed is a range, one of all of the peering's, that it says where to see: there or
// nowhere.
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
	return outcome{cidr: p.CIDR, claim: spec, reason: fmt.Sprintf("the peering says that %s is seen as %s", p.CIDR, p.SeenAs)}
}

// keeps reports whether a peering needs what it holds for one of its ranges other than p.
func keeps(all v1alpha1.RemotePrefixes, p v1alpha1.RemotePrefix, held claims.Spec) bool {
	return slices.ContainsFunc(all, func(other v1alpha1.RemotePrefix) bool {
		return other != p && other.CIDR == held.For && (other.SeenAs == "" || other.SeenAs == held.Prefix)
	})
}

// kept is what the owner holds for a range, if that may be used on: its other ranges
// cannot all be seen, which is no reason to take this one away.
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
