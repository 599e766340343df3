package gateway

import (
	"net/netip"

	"strait.dev/strait/nat"
)

// Owners are the addresses of the remote cluster that belong to one of its gateways, by their real
// values: the gateway has the state of their flows, so that packets must reach it and no other. What
// stands for a gateway is up to the caller; nil means that it cannot be reached at present.
type Owners map[netip.Addr]any

// SetOwners replaces the owners; the caller must not change o any more. Addresses that o does not contain
// belong to no gateway: any can be used.
func (g *Gateway) SetOwners(o Owners) {
	if len(o) == 0 {
		g.owners.Store(nil)
		return
	}
	g.owners.Store(&o)
}

// Owner returns the owner of a real address of the remote cluster. owned is false if it has none.
func (g *Gateway) Owner(a netip.Addr) (owner any, owned bool) {
	o := g.owners.Load()
	if o == nil {
		return nil, false
	}
	owner, owned = (*o)[a]
	return owner, owned
}

// ownerBehind returns the owner of an address as this cluster sees it, nil if it has none. It is not
// reachable if its owner is not.
func (g *Gateway) ownerBehind(m *nat.Map, a netip.Addr) (owner any, reachable bool) {
	if g.owners.Load() == nil {
		return nil, true
	}
	owner, owned := g.Owner(m.Translate(a))
	return owner, owner != nil || !owned
}
