package controller

import (
	"net/netip"
	"slices"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

// addresses are the pools from which nodes and gateways get their addresses: each has one
// address from each of its pools.
type addresses struct {
	nodes, gateways []*addressPool
}

// addressPool allocates one address of an IP family to each owner.
type addressPool struct {
	of       v1alpha1.Pool
	blocks   []netip.Prefix // in the order in which they are tried
	unique   int            // number of low-order bits that must be unique; 0: none
	space    *ipam.Space
	reserved []ipam.Reserved
	held     map[string]netip.Prefix // by use, also outside of the blocks
}

// newAddresses returns the pools, less what is held. The error names the invalid pool.
func newAddresses(n *network, held []claims.Spec) (*addresses, error) {
	all := &addresses{}
	for _, is4 := range []bool{true, false} {
		var windows, blocks []netip.Prefix
		for _, pool := range n.internalOf(is4) {
			windows = append(windows, window(pool))
			blocks = append(blocks, gatewayBlock(window(pool)))
		}
		used := n.uses()
		forNodes := slices.Concat(used, reserve("the addresses of gateways", blocks))
		nodes := &addressPool{of: v1alpha1.PoolInternal, blocks: windows, unique: indexBits, reserved: used}
		gateways := &addressPool{of: v1alpha1.PoolInternal, blocks: blocks, unique: numberBits, reserved: used}
		external := &addressPool{of: v1alpha1.PoolExternal, blocks: ofFamily(n.external, is4), reserved: used}
		for _, one := range []struct {
			pool     *addressPool
			reserved []ipam.Reserved
			kind     string // whose low-order bits must be unique
		}{{nodes, forNodes, kindNode}, {gateways, used, kindGateway}, {external, used, ""}} {
			if err := one.pool.open(one.reserved, held, one.kind); err != nil {
				return nil, err
			}
		}
		if len(windows) > 0 {
			all.nodes, all.gateways = append(all.nodes, nodes), append(all.gateways, gateways)
		}
		if len(external.blocks) > 0 {
			all.nodes, all.gateways = append(all.nodes, external), append(all.gateways, external)
		}
	}
	return all, nil
}

// open marks what is held as allocated.
func (p *addressPool) open(reserved []ipam.Reserved, held []claims.Spec, kind string) (err error) {
	if p.space, err = ipam.NewSpace(p.blocks, reserved, nil); err != nil {
		return err
	}
	p.held = make(map[string]netip.Prefix)
	for _, spec := range held {
		grant := claims.Grant(spec)
		if p.space.Take(grant) != nil {
			continue // malformed, and so never bound
		}
		if spec.Pool == p.of && len(p.blocks) > 0 && grant.Prefix.Addr().Is4() == p.blocks[0].Addr().Is4() {
			p.held[grant.Owner] = grant.Prefix
		}
		if spec.Pool == p.of && spec.Owner.Kind == kind {
			p.takeSameLastBits(grant)
		}
	}
	return nil
}

// takeSameLastBits reserves the addresses of other blocks with the same low-order bits.
func (p *addressPool) takeSameLastBits(g ipam.Grant) {
	for _, similar := range sameLastBits(g.Prefix.Addr(), p.unique, p.blocks) {
		_ = p.space.Take(ipam.Grant{Owner: "last bits of the " + g.Owner, Prefix: similar}) // well-formed: an owner and one address
	}
}

// claim returns the claim of an owner: the address that it holds, even if that is no longer
// in a pool, otherwise the lowest free address. The error is an *ipam.ExhaustedError.
func (p *addressPool) claim(owner v1alpha1.ClaimOwner) (spec claims.Spec, err error) {
	use := claims.Use(p.of, owner)
	at, ok := p.held[use]
	if _, used := firstOverlap(at, p.reserved); !ok || used {
		if at, err = p.free(use); err != nil {
			return claims.Spec{}, err
		}
	}
	return claims.Spec{Prefix: v1alpha1.CIDR(at.String()), Pool: p.of, Owner: owner}, nil
}

// free allocates the lowest free address for a use.
func (p *addressPool) free(use string) (netip.Prefix, error) {
	var exhausted error
	for _, block := range p.blocks {
		a, err := p.space.Address(use, block)
		if err != nil {
			exhausted = err
			continue
		}
		grant := ipam.Grant{Owner: use, Prefix: single(a)}
		if p.unique > 0 {
			p.takeSameLastBits(grant)
		}
		return grant.Prefix, p.space.Take(grant)
	}
	return netip.Prefix{}, exhausted
}

// firstOverlap returns the first reserved prefix that overlaps p.
func firstOverlap(p netip.Prefix, reserved []ipam.Reserved) (ipam.Reserved, bool) {
	for _, r := range reserved {
		if r.Prefix.Overlaps(p) {
			return r, true
		}
	}
	return ipam.Reserved{}, false
}

// takeExternal reserves an address, so that no node or gateway gets it.
func (a *addresses) takeExternal(g ipam.Grant) {
	for _, pool := range slices.Concat(a.nodes, a.gateways) {
		if pool.of == v1alpha1.PoolExternal {
			_ = pool.space.Take(g) // always valid: one address with an owner
		}
	}
}

// The kinds of owners that the controller claims for. Claims of other owners are not
// changed.
const (
	kindNode    = "NodeAttachment"
	kindGateway = "Gateway"
	kindPeering = "Peering"
	kindMapping = "AddressMapping"
)
