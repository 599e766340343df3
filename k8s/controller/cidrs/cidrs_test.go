package cidrs

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
)

func TestMergedRangesHoldTheSameAddressesAndCoveredOnesNoFewer(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pool := netip.MustParsePrefix("10.0.0.0/24")
	for range 500 {
		var some []netip.Prefix
		for range random.IntN(20) {
			a := pool.Addr().As4()
			a[3] = byte(random.Uint32())
			some = append(some, netip.PrefixFrom(netip.AddrFrom4(a), 26+random.IntN(7)).Masked())
		}
		limit := 1 + random.IntN(4)
		same, more := Merged(some), Covered(some, limit)
		if len(more) > limit {
			t.Fatalf("%v covered by %v, more than %d", some, more, limit)
		}
		for a := pool.Addr(); pool.Contains(a); a = a.Next() {
			in := func(p netip.Prefix) bool { return p.Contains(a) }
			was := slices.ContainsFunc(some, in)
			if slices.ContainsFunc(same, in) != was || was && !slices.ContainsFunc(more, in) {
				t.Fatalf("%v: of %v became %v, covered by %v", a, some, same, more)
			}
		}
		for i, p := range same { // a twin would show here
			for _, q := range same[i+1:] {
				if up, _ := parent(p); p.Overlaps(q) || p.Bits() == q.Bits() && up.Contains(q.Addr()) {
					t.Fatalf("%v and %v of %v could be one", p, q, same)
				}
			}
		}
	}
}
