package controller

import (
	"math"
	"net/netip"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// poolUse is how much of a pool is taken, in addresses of one family.
type poolUse struct {
	pool, family string
	size, used   float64 // as a metric has them: an IPv6 range has more than an integer counts
}

// The pools as operators tell them apart: nodes and gateways have parts of their own of
// the internal CIDRs, and either may run out.
const (
	poolNodes    = "nodes"
	poolGateways = "gateways"
	poolExternal = "external"
	poolRemap    = "remap"
)

// poolUses are the uses of all pools that there are. Ranges that are none are left out;
// claims outside of the pools, from before these changed, count for nothing.
func poolUses(spec v1alpha1.ClusterNetworkSpec, claims []*v1alpha1.AddressClaim) (all []poolUse) {
	for _, is4 := range []bool{true, false} {
		family := "ipv6"
		if is4 {
			family = "ipv4"
		}
		internal := ofFamily(valid(spec.InternalCIDRs), is4)
		var windows, blocks []netip.Prefix
		for _, pool := range internal {
			windows, blocks = append(windows, window(pool)), append(blocks, gatewayBlock(window(pool)))
		}
		for _, one := range []struct {
			pool   string
			ranges []netip.Prefix
			of     v1alpha1.Pool
			except []netip.Prefix // parts of the ranges that are another pool
			most   float64        // that can be told apart
		}{
			{poolNodes, windows, v1alpha1.PoolInternal, blocks, 1 << indexBits},
			{poolGateways, blocks, v1alpha1.PoolInternal, nil, 1 << numberBits},
			{poolExternal, ofFamily(valid(spec.ExternalCIDRs), is4), v1alpha1.PoolExternal, nil, math.Inf(1)},
			{poolRemap, ofFamily(valid(spec.RemapPools), is4), v1alpha1.PoolRemap, nil, math.Inf(1)},
		} {
			if len(one.ranges) == 0 {
				continue
			}
			use := poolUse{pool: one.pool, family: family, size: min(sizes(one.ranges)-sizes(one.except), one.most)}
			for _, claim := range claims {
				taken, err := netip.ParsePrefix(string(claim.Spec.Prefix))
				if err == nil && claim.Spec.Pool == one.of && inside(taken, one.ranges) && !inside(taken, one.except) {
					use.used += size(taken)
				}
			}
			all = append(all, use)
		}
	}
	return all
}

// valid are the ranges that are some.
func valid(texts []v1alpha1.CIDR) (all []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(string(text)); err == nil {
			all = append(all, p.Masked())
		}
	}
	return all
}

// inside reports whether one of the ranges has all of p.
func inside(p netip.Prefix, ranges []netip.Prefix) bool {
	for _, r := range ranges {
		if r.Bits() <= p.Bits() && r.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// size is the number of addresses of a range.
func size(p netip.Prefix) float64 { return math.Ldexp(1, hosts(p)) }

func sizes(ranges []netip.Prefix) (sum float64) {
	for _, p := range ranges {
		sum += size(p)
	}
	return sum
}
