package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"strait.dev/strait/ipam"
)

// claim is one called name, of an owner of the same name unless it says "name=owner",
// for a prefix that is wanted as it is. A "!" behind it says that it is bound.
func claim(name, prefix string) ipam.Claim {
	prefix, bound := strings.CutSuffix(prefix, "!")
	name, owner, found := strings.Cut(name, "=")
	if !found {
		owner = name
	}
	return ipam.Claim{Name: name, Bound: bound, Grant: ipam.Grant{Owner: owner, Wanted: pfx(prefix), Prefix: pfx(prefix)}}
}

// claims reads "name prefix name prefix ...".
func claims(list string) []ipam.Claim {
	var all []ipam.Claim
	for pair := range slices.Chunk(strings.Fields(list), 2) {
		all = append(all, claim(pair[0], pair[1]))
	}
	return all
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, claims, want string }{
		{"nothing", "", ""},
		{"alone", "a 10.0.0.0/16", "bind"},
		{"alone and bound", "a 10.0.0.0/16!", "keep"},
		{"side by side", "a 10.0.0.0/16 b 10.1.0.0/16! c fd00::/48", "bind keep bind"},
		{"the first by name stays", "b 10.0.0.0/16 a 10.0.4.0/24", "drop wait"},
		{"however wide", "a 10.0.0.0/16 b 10.0.4.0/24", "wait drop"},
		{"equal, under names of their own", "a 10.0.0.0/16 b 10.0.0.0/16", "wait drop"},
		{"the bound one stays", "a 10.0.0.0/16 b 10.0.4.0/24!", "drop keep"},
		{"a claim that is dropped blocks no other", "a 10.1.0.0/16 b 10.0.0.0/12 c 10.2.0.0/16", "wait drop wait"},
		{"not even if it is the wider one", "z 10.0.0.0/8! a 10.0.0.0/16 b 10.0.0.0/24", "keep drop drop"},
		{"one purpose, two places", "a=x 10.0.0.0/16 b=x 10.0.0.0/16", "wait drop"},
		{"two bound by hand", "b 10.0.0.0/16! a 10.0.4.0/24!", "drop keep"},
		{"malformed", "a 10.0.0.1/16 b 10.0.0.0/16", "wait bind"},
	} {
		var got []string
		for _, v := range ipam.Decide(claims(c.claims)) {
			got = append(got, v.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %v, want %s", c.name, got, c.want)
		}
	}
}

func TestOfTwoClaimsForOnePurposeOneGivesWay(t *testing.T) {
	t.Parallel()
	at := func(name, owner, wanted, prefix string) ipam.Claim {
		c := ipam.Claim{Name: name, Grant: ipam.Grant{Owner: owner, Prefix: pfx(prefix)}}
		if wanted != "" {
			c.Wanted = pfx(wanted)
		}
		return c
	}
	got := ipam.Decide([]ipam.Claim{
		at("1", "b", "10.0.0.0/16", "10.71.0.0/16"),
		at("2", "b", "10.0.0.0/16", "10.72.0.0/16"),
		at("3", "b", "10.70.0.0/16", "10.73.0.0/16"),
		at("4", "c", "10.0.0.0/16", "10.74.0.0/16"),
		at("5", "node-1", "", "10.80.0.1/32"),
		at("6", "node-1", "", "10.80.0.2/32"),
		at("7", "node-1", "", "fd00:80::1/128"),
	})
	want := []ipam.Verdict{ipam.Wait, ipam.Drop, ipam.Bind, ipam.Bind, ipam.Wait, ipam.Drop, ipam.Bind}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// conflict is the slow, obvious twin of what Decide takes for a conflict.
func conflict(a, b ipam.Claim) bool {
	return a.Prefix.Overlaps(b.Prefix) ||
		a.Owner == b.Owner && a.Wanted == b.Wanted && a.Prefix.Addr().Is4() == b.Prefix.Addr().Is4()
}

func TestVerdictsFollowFromTheConflictsInAnyOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(10, 11))
	for range 500 {
		var all []ipam.Claim
		for i := range 1 + random.IntN(12) {
			c := claim(fmt.Sprintf("%02d=%d", i, random.IntN(8)), "10.0.0.0/32")
			c.Prefix = randomPrefix(random, pfx("10.0.0.0/26"), 26, 32)
			c.Wanted = pfx(fmt.Sprintf("192.168.0.0/%d", c.Prefix.Bits()))
			c.Bound = random.IntN(3) == 0
			all = append(all, c)
		}
		verdicts := map[string]ipam.Verdict{}
		for range 3 {
			random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for i, v := range ipam.Decide(all) {
				if old, ok := verdicts[all[i].Name]; ok && old != v {
					t.Fatalf("%+v: once %v, now %v", all[i], old, v)
				}
				verdicts[all[i].Name] = v
			}
		}
		for _, a := range all {
			dropped, alone, beaten := verdicts[a.Name] == ipam.Drop, true, false
			for _, b := range all {
				if a.Name == b.Name || !conflict(a, b) {
					continue
				}
				alone = false
				beaten = beaten || verdicts[b.Name] != ipam.Drop
			}
			want := map[bool]ipam.Verdict{true: ipam.Bind, false: ipam.Wait}[alone]
			if a.Bound {
				want = ipam.Keep
			}
			if beaten {
				want = ipam.Drop
			}
			if dropped != beaten || verdicts[a.Name] != want {
				t.Fatalf("%+v: %v, want %v, among %+v", a, verdicts[a.Name], want, all)
			}
		}
	}
}
