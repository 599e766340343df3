package translate

import (
	"net/netip"

	"github.com/gaissmai/bart"
)

// ranges is a set of named prefixes.
type ranges struct{ table bart.Table[string] }

// add adds prefixes. Invalid ones are ignored.
func (r *ranges) add(name string, prefixes ...netip.Prefix) {
	for _, p := range prefixes {
		if p.IsValid() {
			r.table.Insert(p.Masked(), name)
		}
	}
}

func (r *ranges) addHosts(name string, addresses ...netip.Addr) {
	for _, a := range addresses {
		r.add(name, host(a))
	}
}

// overlapping returns a prefix that overlaps p, and its name.
func (r *ranges) overlapping(p netip.Prefix) (other netip.Prefix, name string, ok bool) {
	if other, name, ok = r.table.LookupPrefixLPM(p.Masked()); ok {
		return other, name, true
	}
	for other, name = range r.table.Subnets(p.Masked()) {
		return other, name, true
	}
	return other, "", false
}

func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a.WithZone(""), a.BitLen()) }
