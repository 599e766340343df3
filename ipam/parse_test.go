package ipam_test

import (
	"net/netip"
	"strings"
	"testing"

	"strait.dev/strait/ipam"
)

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// prefixes reads a list with spaces between.
func prefixes(list string) []netip.Prefix {
	var all []netip.Prefix
	for s := range strings.FieldsSeq(list) {
		all = append(all, pfx(s))
	}
	return all
}

// single is an address as a prefix.
func single(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func newSpace(t testing.TB, pools string, reserved []ipam.Reserved, granted ...ipam.Grant) *ipam.Space {
	t.Helper()
	s, err := ipam.NewSpace(prefixes(pools), reserved)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range granted {
		take(t, s, g)
	}
	return s
}

func take(t testing.TB, s *ipam.Space, g ipam.Grant) {
	t.Helper()
	if err := s.Take(g); err != nil {
		t.Fatal(err)
	}
}

// prefixOf asks for a prefix that must be granted.
func prefixOf(t testing.TB, s *ipam.Space, owner, wanted string) string {
	t.Helper()
	p, err := s.Prefix(owner, pfx(wanted))
	if err != nil {
		t.Fatal(err)
	}
	return p.String()
}

// addressOf asks for an address that must be granted.
func addressOf(t testing.TB, s *ipam.Space, owner, pool string) string {
	t.Helper()
	a, err := s.Address(owner, pfx(pool))
	if err != nil {
		t.Fatal(err)
	}
	return a.String()
}
