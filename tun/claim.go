package tun

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
)

// claimInterval is how often each end of a link that is up tells the other the addresses of its gateway.
const claimInterval = time.Second

// sendClaims tells the far ends of links that are up the addresses of this gateway when it is time. A claim that is lost is
// repeated.
func sendClaims(links []*Link, g *gateway.Gateway, now time.Time) {
	for _, l := range links {
		if p, _ := l.state.copies(); p.Fit(now) != link.Down && (now.Sub(l.claimed) >= claimInterval || l.claimed.Before(p.UpSince)) {
			l.claimed = now
			l.send(claimPort, link.Claim(g.Table().ExternalAddresses()).Append(nil))
		}
	}
}

// claims returns the addresses that the far end says are its own, as far as it may send from them.
func (l *Link) claims() link.Claim {
	claim := l.claim.Load()
	if claim == nil {
		return nil
	}
	addresses, _ := link.ParseClaim(*claim)
	allowed := l.wg.settings.Load().Allowed
	return slices.DeleteFunc(addresses, func(a netip.Addr) bool {
		return !slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(a) })
	})
}

// claims returns the addresses that the member claims, over any of its links.
func (m *member) claims() (all []netip.Addr) {
	for _, l := range m.links {
		all = append(all, l.claims()...)
	}
	return all
}

// owner is the remote gateway that owns an address.
type owner struct {
	gateway string
	device  *Device // of the link in use; nil: none is up
}

// pin sets the owners of addresses, by the claims of the members. Of claims of one address, the one in effect stays so while
// a link to that gateway is up; else it is that of the first gateway with a link that is up. With one remote gateway there are
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
