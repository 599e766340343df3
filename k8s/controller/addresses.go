package controller

import (
	"net/netip"
	"slices"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
)

// addresses are where nodes and gateways have theirs from: each has one from each of
// its pools.
type addresses struct {
	nodes, gateways []*addressPool
}

// addressPool gives one address of a family to each owner.
type addressPool struct {
	of       v1alpha1.Pool
	blocks   []netip.Prefix // in the order in which they are tried
	unique   int            // so many last bits of its addresses differ; 0 if any do
	space    *ipam.Space
	reserved []ipam.Reserved
	held     map[string]netip.Prefix // by use, wherever it lies
}

// newAddresses is what is free beside what is held. The error names the pool at fault.
func newAddresses(n *network, held []claims.Spec) (*addresses, error) {
	all := &addresses{}
	for _, is4 := range []bool{true, false} {
		var windows, blocks []netip.Prefix
		for _, pool := range ofFamily(n.internal, is4) {
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
			kind     string // whose last bits must differ
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

// open fills the pool with what is held.
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

// takeSameLastBits keeps others from addresses with the same last bits.
func (p *addressPool) takeSameLastBits(g ipam.Grant) {
	for _, similar := range sameLastBits(g.Prefix.Addr(), p.unique, p.blocks) {
		_ = p.space.Take(ipam.Grant{Owner: "last bits of the " + g.Owner, Prefix: similar}) // well-formed: an owner and one address
	}
}

// claim is what the owner shall claim: what it holds, even if that lies in no pool any
// more, or else the lowest free address. The error is an *ipam.ExhaustedError.
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

// free takes the lowest free address for a use.
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

func ofFamily(prefixes []netip.Prefix, is4 bool) (some []netip.Prefix) {
	for _, p := range prefixes {
		if p.Addr().Is4() == is4 {
			some = append(some, p)
		}
	}
	return some
}

// firstOverlap is the first of the reserved ranges that overlaps p.
func firstOverlap(p netip.Prefix, reserved []ipam.Reserved) (ipam.Reserved, bool) {
	for _, r := range reserved {
		if r.Prefix.Overlaps(p) {
			return r, true
		}
	}
	return ipam.Reserved{}, false
}
