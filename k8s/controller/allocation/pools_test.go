package allocation

import (
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestHowMuchOfThePoolsIsTaken(t *testing.T) {
	spec := v1alpha1.ClusterNetworkSpec{
		InternalCIDRs: []v1alpha1.CIDR{"10.80.0.0/16", "fd00:80::/64"},
		ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/24", "nonsense"},
		RemapPools:    []v1alpha1.CIDR{"10.64.0.0/12"},
	}
	claim := func(pool v1alpha1.Pool, prefix v1alpha1.CIDR) *v1alpha1.AddressClaim {
		return &v1alpha1.AddressClaim{Spec: v1alpha1.AddressClaimSpec{Pool: pool, Prefix: prefix}}
	}
	got := map[string]PoolUse{}
	for _, u := range PoolUses(spec, []*v1alpha1.AddressClaim{
		claim(v1alpha1.PoolInternal, "10.80.0.1/32"), claim(v1alpha1.PoolInternal, "10.80.0.2/32"),
		claim(v1alpha1.PoolInternal, "10.80.255.1/32"),
		claim(v1alpha1.PoolInternal, "fd00:80::1/128"),
		claim(v1alpha1.PoolInternal, "10.81.0.1/32"), // from before the pool changed
		claim(v1alpha1.PoolExternal, "10.70.0.1/32"),
		claim(v1alpha1.PoolRemap, "10.71.0.0/16"), claim(v1alpha1.PoolRemap, "10.72.0.0/17"),
		claim(v1alpha1.PoolRemap, "nonsense"),
	}) {
		got[u.Pool+" "+u.Family] = u
	}
	for name, want := range map[string][2]float64{
		"nodes ipv4":    {65536 - 256, 2},
		"gateways ipv4": {256, 1},
		"external ipv4": {256, 1},
		"remap ipv4":    {1 << 20, 1<<16 + 1<<15},
		"nodes ipv6":    {65536 - 256, 1}, // the first 65 536 of it
		"gateways ipv6": {256, 0},
	} {
		if u := got[name]; u.Size != want[0] || u.Used != want[1] {
			t.Errorf("%s: %v of %v are taken, want %v of %v", name, u.Used, u.Size, want[1], want[0])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("pools that there are not: %v", got)
	}
}
