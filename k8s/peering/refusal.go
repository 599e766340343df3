package peering

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// Refusal returns the reason why an announcement is rejected, for people of both clusters;
// nil if it is accepted. An announcement with a cluster ID of another holder is rejected. An
// announcement is rejected as a whole, so that it is never partly in effect. The API server
// accepts every announcement that is not rejected here.
func Refusal(p *v1alpha1.Peering, holders Holders, a *v1alpha1.Announcement) error {
	taken := holders.Refuse(p, a.ClusterID)
	switch {
	case a.ClusterID == "":
		return fmt.Errorf("it has no cluster ID")
	case config.CheckLabel(string(a.ClusterID)) != nil:
		return fmt.Errorf("%s is not a cluster ID", quote(a.ClusterID))
	case taken != nil:
		return taken
	case p.Spec.ClusterID != "" && a.ClusterID != p.Spec.ClusterID:
		return fmt.Errorf("it is from cluster %s, but Peering %s is with cluster %s", a.ClusterID, p.Name, p.Spec.ClusterID)
	case p.Spec.ClusterID == "" && p.Status.ClusterID != "" && a.ClusterID != p.Status.ClusterID:
		return fmt.Errorf("it is from cluster %s, but Peering %s is with cluster %s, which announced itself first", a.ClusterID, p.Name, p.Status.ClusterID)
	}
	pods, err := granted(a.Prefixes, p.Spec.Prefixes, p.Spec.AcceptPrefixes)
	if err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	external, err := granted(a.ExternalPrefixes, p.Spec.ExternalPrefixes, p.Spec.AcceptPrefixes)
	if err != nil {
		return fmt.Errorf("external prefixes: %w", err)
	}
	if err := disjoint(append(pods, external...)); err != nil {
		return err
	}
	if err := checkGateways(a.Gateways); err != nil {
		return err
	}
	return ownKeys(p, a)
}

// granted parses announced CIDRs and checks that each is contained in a granted one. An
// empty grant grants nothing.
func granted(announced []v1alpha1.CIDR, named v1alpha1.RemotePrefixes, accepted []v1alpha1.AcceptedCIDR) (all []netip.Prefix, err error) {
	if len(announced) > maxPrefixes {
		return nil, fmt.Errorf("there are %d prefixes; announce at most %d", len(announced), maxPrefixes)
	}
	var grants []netip.Prefix
	for _, text := range accepted {
		grants = appendPrefix(grants, text)
	}
	for _, prefix := range named {
		grants = appendPrefix(grants, prefix.CIDR)
	}
	for _, text := range announced {
		all = appendPrefix(all, text)
		if len(all) == 0 || all[len(all)-1].String() != string(text) {
			return nil, fmt.Errorf("%s is not a prefix in canonical form", quote(text))
		}
		one := all[len(all)-1]
		if !slices.ContainsFunc(grants, func(grant netip.Prefix) bool { return grant.Bits() <= one.Bits() && grant.Contains(one.Addr()) }) {
			return nil, fmt.Errorf("%s is not granted; to accept it, add it or a wider range to spec.acceptPrefixes", text)
		}
	}
	return all, nil
}

func appendPrefix[S ~string](all []netip.Prefix, text S) []netip.Prefix {
	if p, err := netip.ParsePrefix(string(text)); err == nil && p == p.Masked() {
		return append(all, p)
	}
	return all
}

func disjoint(ranges []netip.Prefix) error {
	for i, one := range ranges {
		if other := slices.IndexFunc(ranges[:i], one.Overlaps); other >= 0 {
			return fmt.Errorf("%s and %s overlap; announce each address once", ranges[other], one)
		}
	}
	return nil
}

// ownKeys rejects keys of this cluster's own gateways: a peer with such a key would be this
// cluster itself.
func ownKeys(p *v1alpha1.Peering, a *v1alpha1.Announcement) error {
	for _, theirs := range a.Gateways {
		for _, ours := range p.Status.Gateways {
			for _, key := range []v1alpha1.PublicKey{ours.PublicKey, ours.NextPublicKey} {
				if key != "" && slices.Contains(theirs.PublicKeys, key) {
					return fmt.Errorf("gateway %s has the public key of gateway %s of the receiving cluster", theirs.Name, ours.Name)
				}
			}
		}
	}
	return nil
}
