package nodehelper

import "net/netip"

// reservedPrefixes are CIDRs in use, each with a description.
type reservedPrefixes struct{ all []reservedPrefix }

type reservedPrefix struct {
	prefix netip.Prefix
	what   string
}

func (t *reservedPrefixes) add(what string, prefixes ...netip.Prefix) {
	for _, p := range prefixes {
		t.all = append(t.all, reservedPrefix{p, what})
	}
}

func (t *reservedPrefixes) hosts(what string, addresses ...netip.Addr) {
	for _, a := range addresses {
		t.add(what, netip.PrefixFrom(a, a.BitLen()))
	}
}

func (t *reservedPrefixes) overlapping(p netip.Prefix) (what string, is bool) {
	for _, m := range t.all {
		if m.prefix.Overlaps(p) {
			return m.what + ", " + m.prefix.String(), true
		}
	}
	return "", false
}
