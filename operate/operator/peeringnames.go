package operator

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

var nameForm = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

// CheckName returns an error if a name is not valid for a Peering.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q is not a valid name of a Peering: use up to 40 lower-case letters, digits and '-', beginning with a letter and ending with a letter or digit", name)
	}
	return nil
}

// nameFor returns a valid name for a Peering with a cluster: its ID, which may also begin with a
// digit and have up to 63 characters.
func nameFor(id v1alpha1.ClusterID) string {
	name := string(id)
	if name[0] <= '9' {
		name = "cluster-" + name
	}
	return strings.TrimRight(name[:min(len(name), 40)], "-")
}

// remoteID returns the ID of the remote cluster of a Peering, empty while it is not known.
func remoteID(p *v1alpha1.Peering) v1alpha1.ClusterID {
	return cmp.Or(p.Spec.ClusterID, p.Status.ClusterID)
}

// named returns the Peering of a name, nil if there is none.
func named(all []v1alpha1.Peering, name string) *v1alpha1.Peering {
	return first(all, func(p *v1alpha1.Peering) bool { return p.Name == name })
}

// withCluster returns the Peering with a cluster, nil if there is none.
func withCluster(all []v1alpha1.Peering, id v1alpha1.ClusterID) *v1alpha1.Peering {
	return first(all, func(p *v1alpha1.Peering) bool { return remoteID(p) == id })
}

func first(all []v1alpha1.Peering, is func(*v1alpha1.Peering) bool) *v1alpha1.Peering {
	for i := range all {
		if is(&all[i]) {
			return &all[i]
		}
	}
	return nil
}

// noPeering is the error for a name that no Peering has.
func noPeering(name string, all []v1alpha1.Peering) error {
	return fmt.Errorf("Peering %s does not exist; existing Peerings: %s", name, peeringNames(all))
}

// findPeering returns the name of the Peering with a cluster, and the Peering if it exists:
// the one with that cluster, or else the one with the requested name or, by default, the
// cluster's ID. flag is the flag that sets the name.
func findPeering(c Cluster, all []v1alpha1.Peering, with v1alpha1.ClusterID, wished, flag string) (string, *v1alpha1.Peering, error) {
	if p := withCluster(all, with); p != nil {
		if wished != "" && wished != p.Name {
			return "", nil, fmt.Errorf("%s: already joined to cluster %s by Peering %s; remove %s, or delete that Peering first", c.Name, with, p.Name, flag)
		}
		return p.Name, p, nil
	}
	name := cmp.Or(wished, string(with))
	if err := CheckName(name); err != nil {
		return "", nil, fmt.Errorf("%w; choose another with %s", err, flag)
	}
	p := named(all, name)
	if p != nil && remoteID(p) != "" {
		return "", nil, fmt.Errorf("%s: Peering %s is with cluster %s, not with %s; choose another name with %s", c.Name, name, remoteID(p), with, flag)
	}
	return name, p, nil
}

// ranges returns all CIDRs that a cluster announces to others.
func ranges(n *v1alpha1.ClusterNetwork) []v1alpha1.CIDR {
	pods := peering.LocalPrefixes(&v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{LocalPods: true}}, n)
	return append(pods, n.Spec.ExternalCIDRs...)
}
