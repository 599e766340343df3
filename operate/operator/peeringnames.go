package operator

import (
	"fmt"
	"regexp"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// nameForm matches valid names of Peerings.
var nameForm = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

// CheckName returns an error if a name is not valid for a Peering.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q is not a valid name of a Peering: use up to 40 lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit", name)
	}
	return nil
}

// remoteID returns the ID of the remote cluster of a Peering, empty while it is not known.
func remoteID(p *v1alpha1.Peering) v1alpha1.ClusterID {
	if p.Spec.ClusterID != "" {
		return p.Spec.ClusterID
	}
	return p.Status.ClusterID
}

// findPeering returns the name of the Peering with a cluster, and the Peering if it exists:
// the one with that cluster, or else the one with the requested name or, by default, the
// cluster's ID. flag is the flag that sets the name.
func findPeering(c Cluster, all []v1alpha1.Peering, with v1alpha1.ClusterID, wished, flag string) (string, *v1alpha1.Peering, error) {
	for i := range all {
		p := &all[i]
		if remoteID(p) != with {
			continue
		}
		if wished != "" && wished != p.Name {
			return "", nil, fmt.Errorf("%s: already joined to cluster %s by Peering %s; remove %s, or delete that Peering first", c.Name, with, p.Name, flag)
		}
		return p.Name, p, nil
	}
	name := wished
	if name == "" {
		name = string(with)
	}
	if err := CheckName(name); err != nil {
		return "", nil, fmt.Errorf("%w; choose another with %s", err, flag)
	}
	for i := range all {
		p := &all[i]
		switch {
		case p.Name != name:
		case remoteID(p) != "":
			return "", nil, fmt.Errorf("%s: Peering %s is with cluster %s, not with %s; choose another name with %s", c.Name, name, remoteID(p), with, flag)
		default:
			return name, p, nil
		}
	}
	return name, nil, nil
}

// ranges returns all CIDRs that a cluster announces to others.
func ranges(n *v1alpha1.ClusterNetwork) []v1alpha1.CIDR {
	pods := peering.LocalPrefixes(&v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{LocalPods: true}}, n)
	return append(pods, n.Spec.ExternalCIDRs...)
}
