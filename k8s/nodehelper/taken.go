package nodehelper

import "net/netip"

// taken are ranges of addresses that mean something, and what.
type taken struct{ all []meaning }

type meaning struct {
	prefix netip.Prefix
	what   string
}

func (t *taken) add(what string, prefixes ...netip.Prefix) {
	for _, p := range prefixes {
		t.all = append(t.all, meaning{p, what})
	}
}

func (t *taken) hosts(what string, addresses ...netip.Addr) {
	for _, a := range addresses {
		t.add(what, netip.PrefixFrom(a, a.BitLen()))
	}
}

// overlapping is what a prefix has addresses in common with.
func (t *taken) overlapping(p netip.Prefix) (what string, is bool) {
	for _, m := range t.all {
		if m.prefix.Overlaps(p) {
			return m.what + ", " + m.prefix.String(), true
		}
	}
	return "", false
}
