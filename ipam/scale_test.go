package ipam_test

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"

	"strait.dev/strait/ipam"
)

// A search that tried one address after the other would not end before the sun does.
func TestTheOneHoleInAHugePoolIsFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pool, hole string }{
		{"10.0.0.0/8", "10.213.7.99"},
		{"fd00:80::/48", "fd00:80:0:dead:beef::7"},
		{"fd00:80::/48", "fd00:80:0:ffff:ffff:ffff:ffff:ffff"},
	} {
		pool, hole := pfx(c.pool), single(netip.MustParseAddr(c.hole))
		s := newSpace(t, c.pool, around(pool, hole))
		if got := addressOf(t, s, "node-1", c.pool); got != c.hole {
			t.Errorf("%s: got %v", c.pool, got)
		}
		if got := prefixOf(t, s, "b", single(pool.Addr()).String()); got != hole.String() {
			t.Errorf("%s: got %v", c.pool, got)
		}
		take(t, s, ipam.Grant{Owner: "node-1", Prefix: hole})
		if got, err := s.Address("node-2", pool); err == nil {
			t.Errorf("%s is full, but gave %v", c.pool, got)
		}
	}
}

// around reserves all of pool but the hole: a block for each bit between them.
func around(pool, hole netip.Prefix) []ipam.Reserved {
	var all []ipam.Reserved
	for length := pool.Bits() + 1; length <= hole.Bits(); length++ {
		b := hole.Addr().AsSlice()
		b[(length-1)/8] ^= 0x80 >> ((length - 1) % 8)
		a, _ := netip.AddrFromSlice(b)
		all = append(all, ipam.Reserved{Prefix: netip.PrefixFrom(a, length).Masked(), Use: "a test"})
	}
	return all
}

// crowded is a pool of which the lowest addresses are granted, half of n of them
// in a row and half with holes, and as many more anywhere.
func crowded(t testing.TB, pool netip.Prefix, n int) *ipam.Space {
	random := rand.New(rand.NewPCG(6, 7))
	s := newSpace(t, pool.String(), nil)
	for i := range n {
		b := pool.Addr().AsSlice()
		low := b[len(b)-4:]
		offset := uint32(i + 1)
		if i > n/2 {
			offset = uint32(n + 2*i)
		}
		binary.BigEndian.PutUint32(low, binary.BigEndian.Uint32(low)+offset)
		a, _ := netip.AddrFromSlice(b)
		take(t, s, ipam.Grant{Owner: strconv.Itoa(i), Prefix: single(a)})
		take(t, s, ipam.Grant{Owner: "far " + strconv.Itoa(i), Prefix: randomPrefix(random, pool, a.BitLen(), a.BitLen())})
	}
	return s
}

func BenchmarkAddress(b *testing.B) {
	for _, pool := range []string{"10.0.0.0/8", "fd00:80::/48"} {
		for _, n := range []int{0, 1_000, 100_000} {
			b.Run(pool+"/taken="+strconv.Itoa(n), func(b *testing.B) {
				s := crowded(b, pfx(pool), n)
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Address("node-1", pfx(pool)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkPrefix(b *testing.B) {
	for _, c := range []struct{ pool, wanted string }{{"10.0.0.0/8", "10.0.0.0/16"}, {"10.0.0.0/8", "10.0.0.0/28"}, {"fd00:80::/48", "fd00:80::/64"}} {
		b.Run(c.wanted+"/taken=100000", func(b *testing.B) {
			s := crowded(b, pfx(c.pool), 100_000)
			b.ReportAllocs()
			for b.Loop() {
				s.Prefix("b", pfx(c.wanted)) // may find nothing: that is known at the first step
			}
		})
	}
}

func BenchmarkTakeAndRelease(b *testing.B) {
	for _, pool := range []string{"10.0.0.0/8", "fd00:80::/48"} {
		b.Run(pool+"/taken=100000", func(b *testing.B) {
			s := crowded(b, pfx(pool), 100_000)
			g := ipam.Grant{Owner: "node-1", Prefix: single(netip.MustParseAddr(addressOf(b, s, "node-1", pool)))}
			b.ReportAllocs()
			for b.Loop() {
				if err := s.Take(g); err != nil {
					b.Fatal(err)
				}
				s.Release(g)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	random := rand.New(rand.NewPCG(8, 9))
	var claims []ipam.Claim
	for i := range 100_000 {
		p := randomPrefix(random, pfx("10.0.0.0/8"), 28, 32)
		claims = append(claims, ipam.Claim{Name: strconv.Itoa(i), Bound: i%2 == 0,
			Grant: ipam.Grant{Owner: strconv.Itoa(i), Wanted: p, Prefix: p}})
	}
	for b.Loop() {
		ipam.Decide(claims)
	}
}
