package gateway

import (
	"net/netip"

	"strait.dev/strait/nat"
)

// Exit is the link to a gateway of the remote cluster. Safe for concurrent use.
type Exit interface {
	// Forward queues a copy of a packet that another link has read, for the tunnel. It returns why it does not, NoReason if
	// it does.
	Forward(ip []byte) Reason
}

// Owners are the addresses of the remote cluster that belong to one of its gateways, by their real
// values: the gateway has the state of their flows, so that packets must reach it and no other. A nil Exit
// means that the gateway cannot be reached at present.
type Owners map[netip.Addr]Exit

// owners are Owners for the packet path. Few addresses have an owner: the last byte of most others shows that they have none, which
// costs less than a look into the map.
type owners struct {
	of   Owners
	last [256]bool // by the last byte of an address: one with that byte has an owner
}

// SetOwners replaces the owners; the caller must not change o any more. Addresses that o does not contain
// belong to no gateway: any can be used.
func (g *Gateway) SetOwners(o Owners) {
	if len(o) == 0 {
		g.owners.Store(nil)
		return
	}
	all := &owners{of: o}
	for a := range o {
		all.last[lastByte(a)] = true
	}
	g.owners.Store(all)
}

func lastByte(a netip.Addr) byte {
	b := a.As16()
	return b[15]
}

// Owner returns the owner of a real address of the remote cluster. owned is false if it has none.
func (g *Gateway) Owner(a netip.Addr) (owner Exit, owned bool) {
	o := g.owners.Load()
	if o == nil || !o.last[lastByte(a)] {
		return nil, false
	}
	owner, owned = o.of[a]
	return owner, owned
}

// ownerBehind returns the owner of an address as this cluster sees it, nil if it has none. It is not
// reachable if its owner is not.
func (g *Gateway) ownerBehind(m *nat.Map, a netip.Addr) (owner Exit, reachable bool) {
	if g.owners.Load() == nil {
		return nil, true
	}
	owner, owned := g.Owner(m.Translate(a))
	return owner, owner != nil || !owned
}
