package tun

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
	"strait.dev/strait/packet"
)

// Claims: a gateway has the state of the flows that it masquerades, and of the connections of its own
// host. So replies to its external addresses must reach this gateway and no other of its cluster. Each
// end of a link tells the other its external addresses, every second while the link is up, over UDP
// inside the tunnel, between the link addresses.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------------------------------------------------------+
//	|                        magic "STRO"                           |
//	+---------------+---------------+---------------+---------------+
//	|  version = 1  | IPv4 addresses| IPv6 addresses| reserved = 0  |
//	+---------------+---------------+---------------+---------------+
//	|            the addresses, IPv4 first, 4 or 16 bytes each      |
//
// A claim replaces the one before. Later versions may append fields; receivers ignore what they do not
// know. A gateway of a version without claims claims nothing, and its packets may use any link.
//
// Of claims of one address by several gateways, the one in effect stays so while a link to that gateway
// is up; else it is that of the first gateway with a link that is up. Addresses outside of the grants of
// the link are ignored.
const (
	claimMagic     = 0x5354524f
	claimVersion   = 1
	claimHeaderLen = 8
	claimInterval  = time.Second
	// maxClaims is the maximum number of addresses of each family that a gateway can claim.
	maxClaims = 16
	maxClaim  = claimHeaderLen + maxClaims*(4+16)
)

// appendClaim appends a claim of the first addresses of each family.
func appendClaim(b []byte, addresses []netip.Addr) []byte {
	var families [2][]netip.Addr
	for _, a := range addresses {
		if i := packet.FamilyIndex(a); len(families[i]) < maxClaims {
			families[i] = append(families[i], a)
		}
	}
	b = binary.BigEndian.AppendUint32(b, claimMagic)
	b = append(b, claimVersion, byte(len(families[0])), byte(len(families[1])), 0)
	for _, a := range slices.Concat(families[:]...) {
		b = append(b, a.AsSlice()...)
	}
	return b
}

// parseClaim returns the addresses of a claim.
func parseClaim(b []byte) (addresses []netip.Addr, ok bool) {
	if len(b) < claimHeaderLen || binary.BigEndian.Uint32(b) != claimMagic || b[4] < claimVersion {
		return nil, false
	}
	counts := [...]int{int(b[5]), int(b[6])}
	b = b[claimHeaderLen:]
	if counts[0] > maxClaims || counts[1] > maxClaims || len(b) < 4*counts[0]+16*counts[1] {
		return nil, false
	}
	for i, size := range [...]int{4, 16} {
		for range counts[i] {
			a, _ := netip.AddrFromSlice(b[:size])
			addresses, b = append(addresses, a), b[size:]
		}
	}
	return addresses, true
}

// sendClaims tells the far ends of links that are up the addresses of this gateway when it is time. A claim that is lost is
// repeated.
func sendClaims(links []*Link, g *gateway.Gateway, now time.Time) {
	for _, l := range links {
		if p, _ := l.state.copies(); p.Fit(now) != link.Down && (now.Sub(l.claimed) >= claimInterval || l.claimed.Before(p.UpSince)) {
			l.claimed = now
			l.send(claimPort, appendClaim(nil, g.Table().ExternalAddresses()))
		}
	}
}

// claims returns the addresses that the far end says are its own, as far as it may send from them.
func (l *Link) claims() []netip.Addr {
	claim := l.claim.Load()
	if claim == nil {
		return nil
	}
	addresses, _ := parseClaim(*claim)
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
