package controller

import (
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/network"
)

// grantedAddresses are the bound addresses of one owner, IPv4 first. internal is empty
// without the address that the owner's index or number is derived from.
type grantedAddresses struct{ internal, external []netip.Addr }

func addressesByOwner(n *network.Network, inForce []claims.Spec) map[v1alpha1.ClaimOwner]grantedAddresses {
	all := make(map[v1alpha1.ClaimOwner]grantedAddresses)
	for _, spec := range inForce {
		granted, a := all[spec.Owner], claims.Grant(spec).Prefix.Addr()
		switch spec.Pool {
		case v1alpha1.PoolInternal:
			granted.internal = ipv4First(append(granted.internal, a))
		case v1alpha1.PoolExternal:
			granted.external = ipv4First(append(granted.external, a))
		}
		all[spec.Owner] = granted
	}
	numbered4 := len(cidrs.OfFamily(n.Internal, true)) > 0
	for owner, granted := range all {
		if len(granted.internal) > 0 && granted.internal[0].Is4() != numbered4 {
			granted.internal = nil
			all[owner] = granted
		}
	}
	return all
}

func ipv4First(addresses []netip.Addr) []netip.Addr {
	slices.SortFunc(addresses, netip.Addr.Compare) // IPv4 sorts before IPv6
	return addresses
}
