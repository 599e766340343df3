package ipam_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"strait.dev/strait/ipam"
)

var podCIDR = []ipam.Reserved{{Prefix: pfx("10.0.0.0/16"), Use: "this cluster's pod CIDR"}}

func TestPrefixIsTheWantedOneOrElseTheLowestFree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pools, used, wanted, want string }{
		{"free and in a pool", "10.64.0.0/10", "", "10.71.0.0/16", "10.71.0.0/16"},
		{"the pool itself", "10.64.0.0/10", "", "10.64.0.0/10", "10.64.0.0/10"},
		{"outside of the pools", "10.64.0.0/10", "", "10.0.0.0/16", "10.64.0.0/16"},
		{"taken", "10.64.0.0/10", "10.71.0.0/16", "10.71.0.0/16", "10.64.0.0/16"},
		{"a part of it is taken", "10.64.0.0/10", "10.71.3.4/32", "10.71.0.0/16", "10.64.0.0/16"},
		{"a part of what is taken", "10.64.0.0/10", "10.64.0.0/12", "10.65.0.0/24", "10.80.0.0/24"},
		{"fits before what is taken", "10.64.0.0/10", "10.64.1.0/24", "192.168.0.0/24", "10.64.0.0/24"},
		{"fits only behind it", "10.64.0.0/10", "10.64.1.0/24", "192.168.0.0/16", "10.65.0.0/16"},
		{"pools in their order", "172.16.0.0/12 10.64.0.0/10", "", "192.168.0.0/16", "172.16.0.0/16"},
		{"the first pool is full", "172.16.0.0/12 10.64.0.0/10", "172.0.0.0/8", "192.168.0.0/16", "10.64.0.0/16"},
		{"the first pool is too narrow", "172.16.0.0/24 10.64.0.0/10", "", "192.168.0.0/16", "10.64.0.0/16"},
		{"the hole between fragments", "10.0.0.0/22", "10.0.0.0/24 10.0.1.128/25 10.0.3.0/32", "192.168.0.0/24", "10.0.2.0/24"},
		{"its own family", "10.64.0.0/10 fd00:64::/32", "", "fd00:1::/48", "fd00:64::/48"},
		{"IPv6, taken", "fd00:64::/32", "fd00:64::/48 fd00:64:2::/48", "fd00:64::/48", "fd00:64:1::/48"},
		{"all of IPv4", "0.0.0.0/0", "0.0.0.0/1", "10.0.0.0/8", "128.0.0.0/8"},
		{"all of IPv6", "::/0", "::/1", "::/1", "8000::/1"},
	} {
		var reserved []ipam.Reserved
		var granted []ipam.Grant
		for i, p := range prefixes(c.used) {
			reserved = append(reserved, ipam.Reserved{Prefix: p, Use: "a test"})
			granted = append(granted, ipam.Grant{Owner: strconv.Itoa(i), Wanted: p, Prefix: p})
		}
		for _, s := range []*ipam.Space{newSpace(t, c.pools, reserved), newSpace(t, c.pools, nil, granted...)} {
			if got := prefixOf(t, s, "b", c.wanted); got != c.want {
				t.Errorf("%s: got %v, want %v", c.name, got, c.want)
			}
		}
	}
}

func TestAddressIsTheLowestFreeThatAHostMayHave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, pool, used, want string }{
		{"not the network address", "10.80.0.0/16", "", "10.80.0.1"},
		{"behind what is taken", "10.80.0.0/16", "10.80.0.1/32 10.80.0.2/31 10.80.0.5/32", "10.80.0.4"},
		{"behind a reserved block", "10.80.0.0/16", "10.80.0.0/24", "10.80.1.0"},
		{"the last but one", "10.80.0.0/29", "10.80.0.0/30 10.80.0.4/31", "10.80.0.6"},
		{"not the subnet-router anycast address", "fd00:80::/64", "", "fd00:80::1"},
		{"the last of IPv6", "fd00:80::/126", "fd00:80::/127 fd00:80::2/128", "fd00:80::3"},
		{"a pair has two hosts", "10.80.0.0/31", "", "10.80.0.0"},
		{"a pair has two hosts in IPv6", "fd00:80::/127", "fd00:80::/128", "fd00:80::1"},
		{"a single address is itself", "10.80.0.9/32", "", "10.80.0.9"},
	} {
		var reserved []ipam.Reserved
		for _, p := range prefixes(c.used) {
			reserved = append(reserved, ipam.Reserved{Prefix: p, Use: "a test"})
		}
		if got := addressOf(t, newSpace(t, c.pool, reserved), "node-1", c.pool); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAnOwnerKeepsWhatItHolds(t *testing.T) {
	t.Parallel()
	b := ipam.Grant{Owner: "b", Wanted: pfx("10.0.0.0/16"), Prefix: pfx("10.71.0.0/16")}
	second := ipam.Grant{Owner: "b", Wanted: pfx("10.70.0.0/16"), Prefix: pfx("10.73.0.0/16")}
	node := ipam.Grant{Owner: "node-1", Prefix: pfx("10.80.0.7/32")}
	s := newSpace(t, "10.64.0.0/12 10.80.0.0/16", podCIDR, b, second, node)
	for range 2 {
		if got := prefixOf(t, s, "b", "10.0.0.0/16"); got != "10.71.0.0/16" {
			t.Errorf("b's first prefix: %v", got)
		}
		if got := prefixOf(t, s, "b", "10.70.0.0/16"); got != "10.73.0.0/16" {
			t.Errorf("b's second prefix: %v", got)
		}
		if got := addressOf(t, s, "node-1", "10.80.0.0/16"); got != "10.80.0.7" {
			t.Errorf("the node's address: %v", got)
		}
	}
	if got := prefixOf(t, s, "c", "10.0.0.0/16"); got != "10.64.0.0/16" {
		t.Errorf("another owner got %v", got)
	}

	// Another pool, and none at all for what b holds.
	s = newSpace(t, "172.16.0.0/12", podCIDR, b, node)
	if got := prefixOf(t, s, "b", "10.0.0.0/16"); got != "10.71.0.0/16" {
		t.Errorf("after the pools changed: %v", got)
	}
	if got := addressOf(t, s, "node-1", "172.16.0.0/12"); got != "172.16.0.1" {
		t.Errorf("an address of another pool: %v", got)
	}

	// A cluster that begins to use b's prefix itself.
	reserved := []ipam.Reserved{{Prefix: pfx("10.71.8.0/24"), Use: "this cluster's service CIDR"}}
	s = newSpace(t, "10.64.0.0/12", reserved, b)
	if got := prefixOf(t, s, "b", "10.0.0.0/16"); got != "10.64.0.0/16" {
		t.Errorf("a reserved prefix was granted again: %v", got)
	}
}

func TestAReleasedGrantIsFreeUnlessAnotherOverlapsIt(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "10.80.0.0/16", []ipam.Reserved{{Prefix: pfx("10.80.0.0/31"), Use: "gateways"}})
	first := ipam.Grant{Owner: "node-1", Prefix: pfx("10.80.0.2/32")}
	take(t, s, first)
	take(t, s, first)
	take(t, s, ipam.Grant{Owner: "node-2", Prefix: first.Prefix})
	s.Release(first)
	s.Release(first)
	if got := addressOf(t, s, "node-3", "10.80.0.0/16"); got != "10.80.0.3" {
		t.Errorf("node-2 holds it still, and node-3 got %v", got)
	}
	s.Release(ipam.Grant{Owner: "node-2", Prefix: first.Prefix})
	if got := addressOf(t, s, "node-3", "10.80.0.0/16"); got != "10.80.0.2" {
		t.Errorf("10.80.0.2 is free, and node-3 got %v", got)
	}
	take(t, s, ipam.Grant{Owner: "all", Wanted: pfx("10.80.0.0/31"), Prefix: pfx("10.80.0.0/31")})
	s.Release(ipam.Grant{Owner: "all", Wanted: pfx("10.80.0.0/31"), Prefix: pfx("10.80.0.0/31")})
	if got := addressOf(t, s, "node-3", "10.80.0.0/16"); got != "10.80.0.2" {
		t.Errorf("what is reserved stays so, and node-3 got %v", got)
	}
}

func TestAnswersDoNotDependOnTheOrderOfWhatIsTaken(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var granted []ipam.Grant
	for i := range 300 {
		p := randomPrefix(random, pfx("10.0.0.0/16"), 20, 32)
		granted = append(granted, ipam.Grant{Owner: strconv.Itoa(i % 40), Wanted: p, Prefix: p})
	}
	answers := func() string {
		s := newSpace(t, "10.0.0.0/16 10.64.0.0/14", nil, granted...)
		var all strings.Builder
		for length := 17; length <= 32; length++ {
			p, err := s.Prefix("b", netip.PrefixFrom(netip.MustParseAddr("0.0.0.0"), length))
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(p.String() + " ")
		}
		plan, err := s.Plan("c", remotes("10.0.0.0/16 10.64.0.0/17"))
		if err != nil {
			t.Fatal(err)
		}
		return all.String() + addressOf(t, s, "node-1", "10.0.0.0/16") + plan[0].SeenAs.String() + plan[0].Reason
	}
	want := ""
	for range 20 {
		random.Shuffle(len(granted), func(i, j int) { granted[i], granted[j] = granted[j], granted[i] })
		got := answers()
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("first\n%s\nthen\n%s", want, got)
		}
	}
}

func TestExhaustionNamesThePoolsTheLengthAndTheRemedy(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "10.64.0.0/15 fd00::/64 172.16.0.0/16", []ipam.Reserved{
		{Prefix: pfx("10.64.1.0/24"), Use: "a"}, {Prefix: pfx("10.65.1.0/24"), Use: "b"}, {Prefix: pfx("172.16.9.0/24"), Use: "c"},
	})
	for _, c := range []struct {
		want  ipam.ExhaustedError
		text  string
		asked func() error
	}{
		{ipam.ExhaustedError{Pools: prefixes("10.64.0.0/15 172.16.0.0/16"), Length: 16},
			"ipam: no /16 is free in 10.64.0.0/15, 172.16.0.0/16; add a pool to the spec of ClusterNetwork, or delete unused claims",
			func() error { _, err := s.Prefix("b", pfx("10.0.0.0/16")); return err }},
		{ipam.ExhaustedError{Pools: prefixes("fd00::/64"), Length: 48, IPv6: true},
			"ipam: no /48 is free in fd00::/64; add a pool to the spec of ClusterNetwork, or delete unused claims",
			func() error { _, err := s.Prefix("b", pfx("fd00:1::/48")); return err }},
		{ipam.ExhaustedError{Length: 48, IPv6: true},
			"ipam: no IPv6 pool is configured, and a /48 is needed; add a pool to the spec of ClusterNetwork",
			func() error { _, err := newSpace(t, "10.0.0.0/8", nil).Prefix("b", pfx("fd00:1::/48")); return err }},
		{ipam.ExhaustedError{Pools: prefixes("10.80.0.0/30"), Length: 32},
			"ipam: no /32 is free in 10.80.0.0/30; add a pool to the spec of ClusterNetwork, or delete unused claims",
			func() error {
				small := newSpace(t, "10.80.0.0/30 10.81.0.0/16", nil,
					ipam.Grant{Owner: "node-1", Prefix: pfx("10.80.0.1/32")}, ipam.Grant{Owner: "node-2", Prefix: pfx("10.80.0.2/32")})
				_, err := small.Address("node-3", pfx("10.80.0.0/30"))
				return err
			}},
	} {
		err := c.asked()
		var got *ipam.ExhaustedError
		if !errors.As(err, &got) {
			t.Errorf("got %v, want %v", err, c.text)
			continue
		}
		if err.Error() != c.text || !slices.Equal(got.Pools, c.want.Pools) || got.Length != c.want.Length || got.IPv6 != c.want.IPv6 {
			t.Errorf("got %+v, want %+v", got, c.want)
		}
	}
}

func TestMalformedGrantsAreNamed(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "10.64.0.0/10", nil)
	build := func(pools []netip.Prefix, reserved []ipam.Reserved, granted ...ipam.Grant) error {
		s, err := ipam.NewSpace(pools, reserved)
		for _, g := range granted {
			err = errors.Join(err, s.Take(g))
		}
		return err
	}
	for _, c := range []struct {
		err  error
		want []string
	}{
		{build(prefixes("10.0.0.0/8 fd00::/8 10.64.0.0/10"), nil), []string{"pools", "10.0.0.0/8", "10.64.0.0/10"}},
		{build(prefixes("10.64.0.0/10 10.0.0.0/8"), nil), []string{"10.0.0.0/8", "10.64.0.0/10"}},
		{build(prefixes("10.0.0.0/8 10.0.0.0/8"), nil), []string{"10.0.0.0/8 and 10.0.0.0/8"}},
		{build(prefixes("10.0.0.1/8"), nil), []string{"10.0.0.1/8", "write 10.0.0.0/8"}},
		{build(make([]netip.Prefix, 1), nil), []string{"not a prefix"}},
		{build(prefixes("::ffff:10.0.0.0/104"), nil), []string{"::ffff:10.0.0.0/104", "write it as IPv4"}},
		{build(nil, []ipam.Reserved{{Prefix: pfx("10.0.0.1/8"), Use: "the pod CIDR"}}), []string{"the pod CIDR", "10.0.0.1/8"}},
		{build(nil, nil, ipam.Grant{Owner: "b", Wanted: pfx("10.0.0.0/16"), Prefix: pfx("10.71.0.0/17")}), []string{"10.71.0.0/17", "b", "10.0.0.0/16"}},
		{build(nil, nil, ipam.Grant{Owner: "b", Wanted: pfx("::/16"), Prefix: pfx("10.71.0.0/16")}), []string{"10.71.0.0/16", "b", "::/16"}},
		{build(nil, nil, ipam.Grant{Owner: "b", Wanted: pfx("10.0.0.1/16"), Prefix: pfx("10.71.0.0/16")}), []string{"b", "10.0.0.1/16"}},
		{build(nil, nil, ipam.Grant{Owner: "node-1", Prefix: pfx("10.80.0.0/31")}), []string{"10.80.0.0/31", "node-1", "/32"}},
		{build(nil, nil, ipam.Grant{Prefix: pfx("10.80.0.1/32")}), []string{"owner"}},
		{second(s.Prefix("b", pfx("10.0.0.1/16"))), []string{"b", "10.0.0.1/16"}},
		{second(s.Prefix("", pfx("10.0.0.0/16"))), []string{"owner"}},
		{second(s.Address("b", pfx("10.70.0.0/16"))), []string{"10.70.0.0/16 is not a pool", "10.64.0.0/10"}},
		{second(s.Address("", pfx("10.64.0.0/10"))), []string{"owner"}},
		{second(s.Plan("", nil)), []string{"owner"}},
		{second(s.Plan("b", remotes("10.0.0.0/16 10.0.4.0/24"))), []string{"prefixes of b", "10.0.0.0/16", "10.0.4.0/24"}},
	} {
		for _, want := range append(c.want, "ipam: ") {
			if c.err == nil || !strings.Contains(c.err.Error(), want) {
				t.Errorf("%v: does not say %q", c.err, want)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }
