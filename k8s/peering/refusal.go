package peering

import (
	"fmt"
	"net/netip"
	"slices"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Refusal is why an announcement cannot be in force, for people on both sides; nil if it
// can. Own is this cluster's ID, empty where that does not matter. It is refused as a
// whole, so that half of one never is in force.
func Refusal(p *v1alpha1.Peering, own v1alpha1.ClusterID, a *v1alpha1.Announcement) error {
	switch {
	case a.ClusterID == "":
		return fmt.Errorf("it names no cluster")
	case own != "" && a.ClusterID == own:
		return fmt.Errorf("cluster ID %s is this cluster's own; give each cluster an ID of its own in spec.clusterID of its ClusterNetwork", own)
	case p.Spec.ClusterID != "" && a.ClusterID != p.Spec.ClusterID:
		return fmt.Errorf("it is of cluster %s, and Peering %s is with cluster %s", a.ClusterID, p.Name, p.Spec.ClusterID)
	case p.Spec.ClusterID == "" && p.Status.ClusterID != "" && a.ClusterID != p.Status.ClusterID:
		return fmt.Errorf("it is of cluster %s, and Peering %s is with cluster %s, which announced itself first", a.ClusterID, p.Name, p.Status.ClusterID)
	case len(a.Gateways) == 0:
		return fmt.Errorf("it names no gateway")
	}
	if err := granted(a.Prefixes, p.Spec.Prefixes, p.Spec.AcceptPrefixes); err != nil {
		return fmt.Errorf("pods: %w", err)
	}
	if err := granted(a.ExternalPrefixes, p.Spec.ExternalPrefixes, p.Spec.AcceptPrefixes); err != nil {
		return fmt.Errorf("external prefixes: %w", err)
	}
	return ownKeys(p, a)
}

// granted says which range lies in none that is granted. An empty grant grants nothing.
func granted(announced []v1alpha1.CIDR, named v1alpha1.RemotePrefixes, accepted []v1alpha1.CIDR) error {
	grants := slices.Clone(accepted)
	for _, prefix := range named {
		grants = append(grants, prefix.CIDR)
	}
	for _, text := range announced {
		if _, err := netip.ParsePrefix(string(text)); err != nil {
			return fmt.Errorf("%q is not a prefix", text)
		}
		if !slices.ContainsFunc(grants, func(grant v1alpha1.CIDR) bool { return contains(grant, text) }) {
			return fmt.Errorf("%s is not granted; to accept it, add it or a wider range to spec.acceptPrefixes", text)
		}
	}
	return nil
}

// ownKeys refuses keys of this cluster's own gateways: a peer with one of them would be
// this cluster itself.
func ownKeys(p *v1alpha1.Peering, a *v1alpha1.Announcement) error {
	for _, theirs := range a.Gateways {
		if len(theirs.PublicKeys) == 0 {
			return fmt.Errorf("gateway %s has no public key", theirs.Name)
		}
		for _, ours := range p.Status.Gateways {
			if slices.Contains(theirs.PublicKeys, ours.PublicKey) || ours.NextPublicKey != "" && slices.Contains(theirs.PublicKeys, ours.NextPublicKey) {
				return fmt.Errorf("gateway %s has the public key of gateway %s of the cluster that it is announced to", theirs.Name, ours.Name)
			}
		}
	}
	return nil
}
