package tun

import (
	"maps"
	"net/netip"

	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
)

// owner is the remote gateway that owns an address.
type owner struct {
	gateway string
	device  *Device // of the link in use; nil: none is up
}

// pin sets the owners of addresses, by the claims of the members. With one remote gateway there are
// none: no choice is to be made.
func (d *director) pin(members []*member) {
	rank := func(a netip.Addr, o owner) (r int) {
		if o.device != nil {
			r = 2
		}
		if d.owners[a].gateway == o.gateway {
			r++
		}
		return r
	}
	owners := make(map[netip.Addr]owner)
	for _, m := range members {
		o := owner{gateway: m.link.wg.settings.Load().Gateway}
		if m.fit != link.Down {
			o.device = m.link.tun
		}
		for _, a := range m.claims() {
			if other, taken := owners[a]; len(members) > 1 && (!taken || rank(a, o) > rank(a, other)) {
				owners[a] = o
			}
		}
	}
	if maps.Equal(owners, d.owners) {
		return
	}
	d.owners = owners
	all := make(gateway.Owners, len(owners))
	for a, o := range owners {
		all[a] = nil
		if o.device != nil {
			all[a] = o.device
		}
	}
	d.gateway.SetOwners(all)
}

// claims returns the addresses that the member claims, over any of its links.
func (m *member) claims() (all []netip.Addr) {
	for _, l := range m.links {
		if claimed := l.claims.Load(); claimed != nil {
			all = append(all, *claimed...)
		}
	}
	return all
}
