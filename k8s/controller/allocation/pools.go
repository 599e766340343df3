package allocation

import (
	"math"
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
)

// PoolUse is the utilization of a pool, in addresses of one IP family.
type PoolUse struct {
	Pool, Family string
	Size, Used   float64 // floating point as in metrics: IPv6 pools exceed the integer range
}

// The pools as shown to operators: nodes and gateways have separate parts of the internal
// CIDRs, and each may be exhausted.
const (
	poolNodes    = "nodes"
	poolGateways = "gateways"
	poolExternal = "external"
	poolRemap    = "remap"
)

// PoolUses returns the utilization of all pools. Invalid CIDRs are skipped; claims outside
// of the current pools do not count.
func PoolUses(spec v1alpha1.ClusterNetworkSpec, claims []*v1alpha1.AddressClaim) (all []PoolUse) {
	for _, is4 := range []bool{true, false} {
		family := "ipv6"
		if is4 {
			family = "ipv4"
		}
		internal := cidrs.OfFamily(cidrs.Valid(spec.InternalCIDRs), is4)
		var windows, blocks []netip.Prefix
		for _, pool := range internal {
			windows, blocks = append(windows, window(pool)), append(blocks, gatewayBlock(window(pool)))
		}
		for _, one := range []struct {
			pool   string
			ranges []netip.Prefix
			of     v1alpha1.Pool
			except []netip.Prefix // parts of the ranges that belong to another pool
			most   float64        // limit of distinct addresses
		}{
			{poolNodes, windows, v1alpha1.PoolInternal, blocks, 1 << indexBits},
			{poolGateways, blocks, v1alpha1.PoolInternal, nil, 1 << numberBits},
			{poolExternal, cidrs.OfFamily(cidrs.Valid(spec.ExternalCIDRs), is4), v1alpha1.PoolExternal, nil, math.Inf(1)},
			{poolRemap, cidrs.OfFamily(cidrs.Valid(spec.RemapPools), is4), v1alpha1.PoolRemap, nil, math.Inf(1)},
		} {
			if len(one.ranges) == 0 {
				continue
			}
			use := PoolUse{Pool: one.pool, Family: family, Size: min(sizes(one.ranges)-sizes(one.except), one.most)}
			for _, claim := range claims {
				taken, err := netip.ParsePrefix(string(claim.Spec.Prefix))
				if err == nil && claim.Spec.Pool == one.of && inside(taken, one.ranges) && !inside(taken, one.except) {
					use.Used += size(taken)
				}
			}
			all = append(all, use)
		}
	}
	return all
}

func inside(p netip.Prefix, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Bits() <= p.Bits() && r.Contains(p.Addr()) })
}

func size(p netip.Prefix) float64 { return math.Ldexp(1, cidrs.HostBits(p)) }

func sizes(ranges []netip.Prefix) (sum float64) {
	for _, p := range ranges {
		sum += size(p)
	}
	return sum
}
