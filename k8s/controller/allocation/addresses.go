// Package allocation decides which addresses nodes and gateways get, and which CIDRs remote CIDRs
// are mapped to, from the pools of a ClusterNetwork and the claims that are held. It does no I/O:
// package claims stores the results.
package allocation

import (
	"net/netip"
	"slices"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/network"
)

// Addresses are the pools from which nodes and gateways get their addresses: each has one
// address from each of its pools.
type Addresses struct {
	Nodes, Gateways []*AddressPool
}

// AddressPool allocates one address of an IP family to each owner.
type AddressPool struct {
	Of       v1alpha1.Pool
	blocks   []netip.Prefix // in the order in which they are tried
	unique   int            // number of low-order bits that must be unique; 0: none
	space    *ipam.Space
	reserved []ipam.Reserved
	held     map[string]netip.Prefix // by use, also outside of the blocks
}

// NewAddresses returns the pools, less what is held. The error names the invalid pool.
func NewAddresses(n *network.Network, held []claims.Spec) (*Addresses, error) {
	all := &Addresses{}
	for _, is4 := range []bool{true, false} {
		var windows, blocks []netip.Prefix
		for _, pool := range n.InternalOf(is4) {
			windows = append(windows, window(pool))
			blocks = append(blocks, gatewayBlock(window(pool)))
		}
		used := n.Uses()
		forNodes := slices.Concat(used, network.Reserve("the addresses of gateways", blocks))
		nodes := &AddressPool{Of: v1alpha1.PoolInternal, blocks: windows, unique: indexBits, reserved: used}
		gateways := &AddressPool{Of: v1alpha1.PoolInternal, blocks: blocks, unique: numberBits, reserved: used}
		external := &AddressPool{Of: v1alpha1.PoolExternal, blocks: cidrs.OfFamily(n.External, is4), reserved: used}
		for _, one := range []struct {
			pool     *AddressPool
			reserved []ipam.Reserved
			kind     string // whose low-order bits must be unique
		}{{nodes, forNodes, KindNode}, {gateways, used, KindGateway}, {external, used, ""}} {
			if err := one.pool.open(one.reserved, held, one.kind); err != nil {
				return nil, err
			}
		}
		if len(windows) > 0 {
			all.Nodes, all.Gateways = append(all.Nodes, nodes), append(all.Gateways, gateways)
		}
		if len(external.blocks) > 0 {
			all.Nodes, all.Gateways = append(all.Nodes, external), append(all.Gateways, external)
		}
	}
	return all, nil
}

func (p *AddressPool) open(reserved []ipam.Reserved, held []claims.Spec, kind string) (err error) {
	if p.space, err = ipam.NewSpace(p.blocks, reserved); err != nil {
		return err
	}
	p.held = make(map[string]netip.Prefix)
	for _, spec := range held {
		grant := claims.Grant(spec)
		if p.space.Take(grant) != nil {
			continue // malformed, and so never bound
		}
		if spec.Pool == p.Of && len(p.blocks) > 0 && grant.Prefix.Addr().Is4() == p.blocks[0].Addr().Is4() {
			p.held[grant.Owner] = grant.Prefix
		}
		if spec.Pool == p.Of && spec.Owner.Kind == kind {
			p.takeSameLastBits(grant)
		}
	}
	return nil
}

// takeSameLastBits reserves the addresses of other blocks with the same low-order bits.
func (p *AddressPool) takeSameLastBits(g ipam.Grant) {
	for _, similar := range sameLastBits(g.Prefix.Addr(), p.unique, p.blocks) {
		_ = p.space.Take(ipam.Grant{Owner: "last bits of the " + g.Owner, Prefix: similar}) // well-formed: an owner and one address
	}
}

// Claim returns the claim of an owner: the address that it holds, even if that is no longer
// in a pool, otherwise the lowest free address. The error is an *ipam.ExhaustedError.
func (p *AddressPool) Claim(owner v1alpha1.ClaimOwner) (spec claims.Spec, err error) {
	use := claims.Use(p.Of, owner)
	at, ok := p.held[use]
	if _, used := firstOverlap(at, p.reserved); !ok || used {
		if at, err = p.free(use); err != nil {
			return claims.Spec{}, err
		}
	}
	return claims.Spec{Prefix: v1alpha1.CIDR(at.String()), Pool: p.Of, Owner: owner}, nil
}

func (p *AddressPool) free(use string) (netip.Prefix, error) {
	var exhausted error
	for _, block := range p.blocks {
		a, err := p.space.Address(use, block)
		if err != nil {
			exhausted = err
			continue
		}
		grant := ipam.Grant{Owner: use, Prefix: cidrs.Single(a)}
		if p.unique > 0 {
			p.takeSameLastBits(grant)
		}
		return grant.Prefix, p.space.Take(grant)
	}
	return netip.Prefix{}, exhausted
}

func firstOverlap(p netip.Prefix, reserved []ipam.Reserved) (ipam.Reserved, bool) {
	for _, r := range reserved {
		if r.Prefix.Overlaps(p) {
			return r, true
		}
	}
	return ipam.Reserved{}, false
}

// TakeExternal reserves an address, so that no node or gateway gets it.
func (a *Addresses) TakeExternal(g ipam.Grant) {
	for _, pool := range slices.Concat(a.Nodes, a.Gateways) {
		if pool.Of == v1alpha1.PoolExternal {
			_ = pool.space.Take(g) // always valid: one address with an owner
		}
	}
}

// The kinds of owners that the controller claims for. Claims of other owners are not
// changed.
const (
	KindNode    = "NodeAttachment"
	KindGateway = "Gateway"
	KindPeering = "Peering"
	KindMapping = "AddressMapping"
)
