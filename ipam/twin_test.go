package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/ipam"
)

// The slow, obvious twin: it remembers every single address that is in use, and
// tries every block of a pool one after the other.
type twin struct {
	pools    []netip.Prefix
	reserved map[netip.Addr]bool
	granted  []ipam.Grant
}

// addresses are all in a prefix.
func addresses(p netip.Prefix) []netip.Addr {
	var all []netip.Addr
	for a := p.Addr(); p.Contains(a); a = a.Next() {
		all = append(all, a)
	}
	return all
}

// blocks are all parts of a pool that have this length.
func blocks(pool netip.Prefix, length int) []netip.Prefix {
	var all []netip.Prefix
	for _, a := range addresses(pool) {
		if p := netip.PrefixFrom(a, length); length >= pool.Bits() && p == p.Masked() {
			all = append(all, p)
		}
	}
	return all
}

func (w *twin) used() map[netip.Addr]bool {
	all := make(map[netip.Addr]bool)
	for a := range w.reserved {
		all[a] = true
	}
	for _, g := range w.granted {
		for _, a := range addresses(g.Prefix) {
			all[a] = true
		}
	}
	return all
}

func anyOf(of map[netip.Addr]bool, p netip.Prefix) bool {
	return slices.ContainsFunc(addresses(p), func(a netip.Addr) bool { return of[a] })
}

// holding is the lowest unreserved prefix that owner holds for wanted, in a pool if one is named.
func (w *twin) holding(owner string, wanted, pool netip.Prefix) (lowest netip.Prefix) {
	for _, g := range w.granted {
		if g.Owner == owner && g.Wanted == wanted && !anyOf(w.reserved, g.Prefix) &&
			(!pool.IsValid() || pool.Contains(g.Prefix.Addr())) &&
			(!lowest.IsValid() || g.Prefix.Addr().Less(lowest.Addr())) {
			lowest = g.Prefix
		}
	}
	return lowest
}

func (w *twin) prefix(owner string, wanted netip.Prefix) netip.Prefix {
	if held := w.holding(owner, wanted, netip.Prefix{}); held.IsValid() {
		return held
	}
	used, lowest := w.used(), netip.Prefix{}
	for _, pool := range w.pools {
		for _, p := range blocks(pool, wanted.Bits()) {
			if p.Addr().Is4() != wanted.Addr().Is4() || anyOf(used, p) {
				continue
			}
			if p == wanted {
				return p
			}
			if !lowest.IsValid() {
				lowest = p
			}
		}
	}
	return lowest
}

func (w *twin) address(owner string, pool netip.Prefix) netip.Addr {
	if held := w.holding(owner, netip.Prefix{}, pool); held.IsValid() {
		return held.Addr()
	}
	used, all := w.used(), addresses(pool)
	if len(all) > 2 {
		if all[0].Is4() {
			all = all[:len(all)-1]
		}
		all = all[1:]
	}
	for _, a := range all {
		if !used[a] {
			return a
		}
	}
	return netip.Addr{}
}

// randomPrefix is a part of pool that is from..to bits long.
func randomPrefix(random *rand.Rand, pool netip.Prefix, from, to int) netip.Prefix {
	b := pool.Addr().AsSlice()
	for i := pool.Bits(); i < len(b)*8; i++ {
		b[i/8] |= byte(random.IntN(2)) << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(a, from+random.IntN(to-from+1)).Masked()
}

func TestEveryAnswerIsThatOfTheTwin(t *testing.T) {
	t.Parallel()
	// Pools side by side and apart, of both families, in no order. What is wanted
	// and reserved comes out of the wider blocks, so some of it lies outside.
	pools := prefixes("10.0.0.32/27 fd00::40/122 10.0.0.16/28 10.0.0.8/31 fd00::/127 10.0.0.4/32 fd00::9/128 10.0.0.64/30")
	wider := prefixes("10.0.0.0/25 fd00::/121")
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 5))
		slow := &twin{pools: pools, reserved: map[netip.Addr]bool{}}
		var reserved []ipam.Reserved
		for range random.IntN(4) {
			w := wider[random.IntN(2)]
			r := randomPrefix(random, w, w.Bits()+3, w.Addr().BitLen())
			reserved = append(reserved, ipam.Reserved{Prefix: r, Use: "a test"})
			for _, a := range addresses(r) {
				slow.reserved[a] = true
			}
		}
		s, err := ipam.NewSpace(pools, reserved)
		if err != nil {
			t.Fatal(err)
		}
		for step := range 400 {
			owner := fmt.Sprintf("owner-%d", random.IntN(12))
			at := fmt.Sprintf("seed %d, step %d", seed, step)
			g := ipam.Grant{Owner: owner}
			switch w := wider[random.IntN(2)]; random.IntN(5) {
			case 0, 1:
				g.Wanted = randomPrefix(random, w, w.Bits()+2, w.Addr().BitLen())
				g.Prefix = samePrefix(t, at, s, slow, owner, g.Wanted)
			case 2, 3:
				g.Prefix = sameAddress(t, at, s, slow, owner, pools[random.IntN(len(pools))])
			case 4:
				if n := len(slow.granted); n > 0 {
					i := random.IntN(n)
					s.Release(slow.granted[i])
					slow.granted = slices.Delete(slow.granted, i, i+1)
				}
			}
			if g.Prefix.IsValid() && !slices.Contains(slow.granted, g) {
				take(t, s, g)
				slow.granted = append(slow.granted, g)
			}
		}
	}
}

func samePrefix(t *testing.T, at string, s *ipam.Space, slow *twin, owner string, wanted netip.Prefix) netip.Prefix {
	t.Helper()
	got, err := s.Prefix(owner, wanted)
	if want := slow.prefix(owner, wanted); got != want || (err == nil) != want.IsValid() {
		t.Fatalf("%s: %s wants %v: got %v, %v, want %v", at, owner, wanted, got, err, want)
	}
	return got
}

func sameAddress(t *testing.T, at string, s *ipam.Space, slow *twin, owner string, pool netip.Prefix) netip.Prefix {
	t.Helper()
	got, err := s.Address(owner, pool)
	if want := slow.address(owner, pool); got != want || (err == nil) != want.IsValid() {
		t.Fatalf("%s: %s wants an address of %v: got %v, %v, want %v", at, owner, pool, got, err, want)
	}
	if err != nil {
		return netip.Prefix{}
	}
	return single(got)
}
